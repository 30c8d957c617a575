// Samples the proposals that a region head learns from, with their targets.
#pragma once

#include <string_view>
#include <vector>

#include "core/types/target.h"
#include "models/pyramid/box_coder.h"
#include "models/pyramid/max_iou_assigner.h"
#include "models/pyramid/sampler.h"

namespace saccade {

struct RoiSampling {
  MaxIouOptions assigner{.positive = 0.5, .negative = 0.5, .low_quality = true, .least_quality = 0.5};
  SamplerOptions sampler{.count = 512, .positives = 0.25};
};

// A sampled region that stands for an object.
struct RoiObject {
  int64_t roi;     // its row in the samples
  int64_t image;   // its index in the batch
  int64_t object;  // its index in the image
  bool is_own;     // the region is the object's own box
};

// The boxes of each image, four corner coordinates each.
using BoxLists = std::vector<std::vector<float>>;
// boxes [N, K, 4] with scores [N, K]; leaves out those scored below kLeftOut.
BoxLists boxes_of_images(const float* boxes, const float* scores, int64_t images, int64_t proposals);

// The samples of all images, image by image; in each image those that stand for an object come first.
struct RoiSamples {
  std::vector<float> boxes;  // [R, 4], corners in pixels of the image as the model gets it
  std::vector<int64_t> images,
      labels;                       // [R], images ascending; background: the number of classes
  std::vector<float> weights;       // [R]: 1 / the number of regions of the image
  std::vector<RoiObject> objects;   // [P]
  std::vector<float> object_boxes;  // [P, 4]: the boxes of these objects
  std::vector<float>
      mask_weights;  // [P]: 1 / the regions of the image with an object; 0 for an object without a mask
  int64_t count() const { return static_cast<int64_t>(images.size()); }
};

// Samples from the proposals and the objects' own boxes.
RoiSamples sample_rois(const BoxLists& proposals, const std::vector<Target>& targets, int64_t classes,
                       const RoiSampling& options, std::string_view stage);

// Returns the proposals of the next stage: the samples' boxes after their move, [R, 4], clipped to the image;
// without the objects' own boxes, which every stage adds,
// and without boxes that are not finite.
BoxLists moved_samples(const RoiSamples& samples, const float* boxes, const std::vector<ImageSize>& sizes);

// f32 [P, size, size], 0 or 1: the part of the object's mask in its region, sampled as RoIAlign does;
// all 0 for an object without a mask.
std::vector<float> mask_targets(const RoiSamples& samples, const std::vector<Target>& targets, int64_t size);

}  // namespace saccade
