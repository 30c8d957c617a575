// Which proposals a region head learns from, and what they stand for.
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
  int64_t roi;     // its row
  int64_t image;   // in the batch
  int64_t object;  // of the image
  bool is_own;     // the region is the object's own box
};

// Boxes of each image, four corners each.
using BoxLists = std::vector<std::vector<float>>;
// boxes [N, K, 4] with scores [N, K], those below kLeftOut none.
BoxLists boxes_of_images(const float* boxes, const float* scores, int64_t images, int64_t proposals);

// Of all images, one after the other, those that stand for an object first.
struct RoiSamples {
  std::vector<float> boxes;             // [R, 4], corners in pixels of the image as the model gets it
  std::vector<int64_t> images, labels;  // [R], images rising; labels of background: the number of classes
  std::vector<float> weights;           // [R]: 1 / the regions of the image
  std::vector<RoiObject> objects;       // [P]
  std::vector<float> object_boxes;      // [P, 4]: the boxes of the objects
  std::vector<float>
      mask_weights;  // [P]: 1 / those of the image that stand for an object; 0 for one without a mask
  int64_t count() const { return static_cast<int64_t>(images.size()); }
};

// The objects' own boxes are proposals too.
RoiSamples sample_rois(const BoxLists& proposals, const std::vector<Target>& targets, int64_t classes,
                       const RoiSampling& options, std::string_view stage);

// What the next stage has as proposals: the samples, each in the place where it has been moved to, [R, 4],
// cut to its image; without the objects' own boxes, which every stage adds,
// and without boxes that are not finite.
BoxLists moved_samples(const RoiSamples& samples, const float* boxes, const std::vector<ImageSize>& sizes);

// f32 [P, size, size], 0 or 1: the part of the object's mask that is in its region, as RoIAlign reads it;
// all 0 of an object without one.
std::vector<float> mask_targets(const RoiSamples& samples, const std::vector<Target>& targets, int64_t size);

}  // namespace saccade
