// Turns the output of the region heads into the detections of an image.
#pragma once

#include <vector>

#include "models/detector.h"
#include "models/pyramid/box_coder.h"
#include "models/rcnn/region_heads.h"
#include "models/rcnn/rpn.h"

namespace saccade {

struct RegionDetectionOptions {
  double score_threshold = 0.05;  // detections must exceed this
  double nms = 0.5;               // among detections of the same class
  int64_t count = 100;            // per image
  // Masks are pasted as in torchvision: a cell wider on each side, boxes of whole pixels,
  // without the offset of half a pixel.
  bool masks_like_torchvision = false;
};

// The best detections of each image, best first; scores below kLeftOut fill the rest. On the device;
// the shapes depend only on the sizes.
struct RegionDetections {
  Var boxes;       // [N, D, 4] corners in pixels of the image that the model gets, clipped to it
  Var scores;      // [N, D]
  Var labels;      // [N, D], whole numbers in f32
  Var masks = {};  // [N, D, s, s]: probabilities in the box; undefined without masks
};

// result: of all images' proposals in order, in the coder's deltas. sizes f32 [N, 2]: (width, height)
RegionDetections best_detections(const ProposedRegions& proposals, const BoxHead::Result& result,
                                 const Tensor& sizes, const BoxCoder& coder,
                                 const RegionDetectionOptions& options);

// Returns the pixels of an image where a map of probabilities [side, side] that covers a box (in pixels of
// the image) is at least a half.
Mask mask_in_box(const float* probabilities, int64_t side, const Box& box, ImageSize image,
                 bool like_torchvision);

std::vector<std::vector<ImageDetection>> detections_of_images(const RegionDetections& found,
                                                              const std::vector<ImageSize>& sizes,
                                                              const std::vector<Target>& targets,
                                                              const RegionDetectionOptions& own,
                                                              const PostprocessOptions& options);

}  // namespace saccade
