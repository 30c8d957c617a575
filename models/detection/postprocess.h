// From the predictions of the last decoder layer to the detections of each image.
#pragma once

#include <cstdint>
#include <vector>

#include "core/types/target.h"
#include "models/detector.h"

namespace saccade {

struct ImageDetection {
  int64_t label = 0;  // contiguous class
  double score = 0;   // [0, 1]
  double x1 = 0, y1 = 0, x2 = 0,
         y2 = 0;      // pixels of the original image, not cut to it (as in the official code)
  int64_t query = 0;  // which query found it
};

struct PostprocessOptions {
  int64_t max_detections = 100;
  // Columns of the logits that stand for a class; the ones after them are never chosen. 0: all.
  int64_t classes = 0;
  // false: every (query, class) pair is a candidate with score sigmoid(logit) (Deformable DETR). true: the
  // last column means "no object", the scores are the softmax and each query yields its best class (DETR).
  bool softmax = false;
};

// One list per image of the batch, by falling score; equals go by query, then class. Throws Error naming the
// image when a prediction is not finite.
std::vector<std::vector<ImageDetection>> postprocess(const DetectorOutput& output,
                                                     const std::vector<Target>& targets,
                                                     const PostprocessOptions& options = {});

}  // namespace saccade
