// COCO instances files (https://cocodataset.org/#format-data).
#pragma once

#include <string>
#include <vector>

#include "data/formats/annotated_images.h"
#include "data/formats/data_format.h"

namespace saccade {

// Reads the file; everything in its order. A record with a missing or mistyped field is reported and left out, all
// others are kept. Throws InputError when the file cannot be read, is not JSON, or lacks one of the three lists.
GroundTruth read_coco(const std::string& path, const ProblemReport& report);

// As a data set. Throws InputError "file: annotation 7: what" on a missing or broken file, a missing or mistyped field, and for what
// AnnotatedImages throws.
AnnotatedImages load_coco(const std::string& annotations, const std::string& images_dir,
                          LabelScheme labels = LabelScheme::kContiguous);

// The lists as such a file. `description` says where they are from.
std::string coco_json(const GroundTruth& truth, const std::string& description);

// COCO's own categories by id, 0 to 90; kNoCategory at the ids that it does not use.
const std::vector<std::string>& coco_class_names();

}  // namespace saccade
