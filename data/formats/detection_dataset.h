// The one interface of all detection data sets: training, evaluation and the commands know only this. A format that can
// list its images and boxes needs no class of its own (annotated_images.h).
#pragma once

#include <string>
#include <vector>

#include "data/formats/ground_truth.h"
#include "data/formats/image_source.h"

namespace saccade {

// What number a category has for the model: its rank by ascending category id, or its id itself.
enum class LabelScheme { kContiguous, kCategoryId };

// The name of a class that stands for no category: with kCategoryId, the gaps between the ids.
inline constexpr const char* kNoCategory = "N/A";

// name() is that of the annotations. The boxes of make_sample have labels 0 .. num_classes() - 1.
class DetectionDataset : public ImageSource {
 public:
  virtual const std::vector<int64_t>& category_ids() const = 0;     // [num_classes], ascending
  virtual const std::vector<std::string>& class_names() const = 0;  // [num_classes]
  int64_t num_classes() const { return static_cast<int64_t>(category_ids().size()); }
  // What detections are compared with. Ids are unique; every annotation names an image and a category of the lists.
  virtual const GroundTruth& ground_truth() const = 0;
};

}  // namespace saccade
