// From what the region heads say to an image's detections.
#pragma once

#include <vector>

#include "models/detector.h"
#include "models/pyramid/box_coder.h"
#include "models/rcnn/region_heads.h"
#include "models/rcnn/rpn.h"

namespace saccade {

struct RegionDetectionOptions {
  double score_threshold = 0.05;  // detections have a greater score
  double nms = 0.5;               // among those of a class
  int64_t count = 100;            // of an image
  // Masks are drawn as torchvision does: a cell wider on each side, boxes of whole pixels,
  // without the half of a pixel.
  bool masks_like_torchvision = false;
};

// The best of each image, best first; scores below kLeftOut fill the rest. On the device;
// shapes follow from the sizes alone.
struct RegionDetections {
  Var boxes;       // [N, D, 4] corners in pixels of the image as the model gets it, cut to it
  Var scores;      // [N, D]
  Var labels;      // [N, D], whole numbers in f32
  Var masks = {};  // [N, D, s, s]: probabilities in the box; undefined: no masks
};

// result: of the proposals, one after the other, in the coder's deltas. sizes f32 [N, 2]: (width, height)
RegionDetections best_detections(const ProposedRegions& proposals, const BoxHead::Result& result,
                                 const Tensor& sizes, const BoxCoder& coder,
                                 const RegionDetectionOptions& options);

// Of which pixels of an image a map of probabilities [side, side] that covers a box (in pixels of the image)
// says at least a half.
Mask mask_in_box(const float* probabilities, int64_t side, const Box& box, ImageSize image,
                 bool like_torchvision);

std::vector<std::vector<ImageDetection>> detections_of_images(const RegionDetections& found,
                                                              const std::vector<ImageSize>& sizes,
                                                              const std::vector<Target>& targets,
                                                              const RegionDetectionOptions& own,
                                                              const PostprocessOptions& options);

}  // namespace saccade
