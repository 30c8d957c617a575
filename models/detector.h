// The interface between detection models and those who train, evaluate and draw them.
#pragma once

#include <vector>

#include "autograd/ops.h"
#include "layers/module.h"

namespace saccade {

// What one decoder layer predicts.
struct LayerPrediction {
  Var logits;  // [N, Q, K]
  Var boxes;   // [N, Q, 4] as (cx, cy, w, h) in [0, 1], relative to the un-padded image
};

// Where one decoder layer's cross-attention looked, for drawing. Filled only when asked for.
struct SamplingRecord {
  Tensor locations;  // f32 [N, Q, M, L, P, 2] as (x, y) relative to the padded image
  Tensor weights;    // f32 [N, Q, M, L, P]
};

struct DetectorOutput {
  std::vector<LayerPrediction> layers;     // in decoder order; the last one is the result
  LayerPrediction encoder;                 // two-stage proposals (logits of one "object" class in column 0); else undefined
  std::vector<SamplingRecord> sampling;    // one per decoder layer when record_sampling
};

struct DetectorInput {
  Var images;           // [N, H, W, 3] normalised; 0 in the padding
  Tensor padding_mask;  // bool [N, H, W], true = padding
  bool record_sampling = false;
};

class Detector : public Module {
 public:
  virtual DetectorOutput forward(const DetectorInput& input) = 0;
  virtual int64_t num_classes() const = 0;  // K of the logits
};

}  // namespace saccade
