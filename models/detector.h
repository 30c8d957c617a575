// The interface between detection models and those who train, evaluate and draw them.
#pragma once

#include <vector>

#include "autograd/ops.h"
#include "core/types/image_size.h"
#include "layers/attention.h"

namespace saccade {

// What one decoder layer predicts.
struct LayerPrediction {
  Var logits;  // [N, Q, K]
  Var boxes;   // [N, Q, 4] as (cx, cy, w, h) in [0, 1], relative to the un-padded image
};

struct DetectorOutput {
  std::vector<LayerPrediction> layers;  // in decoder order; the last one is the result
  LayerPrediction encoder;  // two-stage proposals (logits of one "object" class in column 0); else undefined
  // Training with extra query groups: Q is this many groups of equal size, each matched with all objects on
  // its own.
  int64_t query_groups = 1;
  std::vector<SamplingRecord> sampling;  // one per decoder layer when record_sampling
};

struct DetectorInput {
  Var images;                    // [N, H, W, 3] normalised; 0 in the padding
  std::vector<ImageSize> sizes;  // [N] parts that are no padding; empty when no image is padded
  bool record_sampling = false;
};

class Detector : public Module {
 public:
  virtual DetectorOutput forward(const DetectorInput& input) = 0;
  virtual int64_t num_classes() const = 0;  // K of the logits
};

}  // namespace saccade
