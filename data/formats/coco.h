// COCO instances files (https://cocodataset.org/#format-data).
#pragma once

#include <string>
#include <vector>

#include "data/formats/annotated_images.h"
#include "data/formats/data_format.h"
#include "data/formats/findings.h"

namespace saccade {

// Reads the file; everything in its order. A record with a missing or mistyped field is reported and left out, all
// others are kept. Throws InputError when the file cannot be read, is not JSON, or lacks one of the three lists.
GroundTruth read_coco(const std::string& path, const ProblemReport& report);

// In the order of the file; lists may be empty. Throws InputError "file: annotation 7: what" on a missing or broken file, a
// missing or mistyped field, and a duplicate or unknown id.
GroundTruth read_coco_ground_truth(const std::string& annotations);
// The same as a data set; throws InputError also for what AnnotatedImages throws.
AnnotatedImages load_coco(const std::string& annotations, const std::string& images_dir,
                          LabelScheme labels = LabelScheme::kContiguous);

// Everything that is wrong with a data set, not only the first thing. One line per problem, each naming the annotation, image
// or category id: missing or mistyped fields, numbers that are not finite, boxes of no or negative size or outside their
// image, unknown and repeated ids, missing or undecodable files and those outside of their folder, and files whose size, as they
// are shown, differs from what the annotations say. A file that is not JSON at all is one problem. paths.images may be empty: then
// no image is looked at. Beside it what is allowed but rarely meant, and what there is.
DatasetReport check_coco(const DataPaths& paths, int threads = 0);

// COCO's own categories by id, 0 to 90; kNoCategory at the ids that it does not use.
const std::vector<std::string>& coco_class_names();

}  // namespace saccade
