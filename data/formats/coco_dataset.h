// COCO instances files as a detection data set.
#pragma once

#include <string>

#include "data/formats/annotated_images.h"

namespace saccade {

// Throws InputError "file: annotation 7: what" on a missing or broken file, a missing or mistyped field, and for what
// AnnotatedImages throws.
AnnotatedImages load_coco(const std::string& annotations, const std::string& images_dir,
                          LabelScheme labels = LabelScheme::kContiguous);

// In the order of the file; lists may be empty.
GroundTruth read_coco_ground_truth(const std::string& annotations);

}  // namespace saccade
