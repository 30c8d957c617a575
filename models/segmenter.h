// The interface between segmentation models and the code that trains, evaluates and draws them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "autograd/function.h"
#include "autograd/ops.h"
#include "layers/module.h"

namespace saccade {

// The output for images [N, H, W, 3], which the cells of a head cover evenly.
struct SegmenterOutput {
  Var logits;  // [N, h, w, K]
  // The same of a head on an earlier map, in training; undefined in evaluation and if there is no such head.
  Var auxiliary;
};

struct SegmentationLoss {
  Var total;  // [] f32
  // The weighted parts by name; their sum is the total. Each is one f32 on the predictions' device.
  std::vector<std::pair<std::string, Tensor>> parts;
};

class Segmenter : public Module {
 public:
  static constexpr const char* kKind = "a segmentation model";  // for messages
  virtual SegmenterOutput forward(const Var& images) = 0;       // [N, H, W, 3] normalised; 0 in the padding
  // Sums the cross entropy over the images' pixels and divides it by `divisor`, so that the losses of a
  // step's batches and ranks add up. labels: i64 [N, H, W] on the predictions' device, the class or -1 for a
  // pixel that does not count; they may have any size, to which the logits are resized.
  virtual SegmentationLoss loss(const SegmenterOutput& output, const Tensor& labels,
                                double divisor) const = 0;
  virtual int64_t num_classes() const = 0;  // K
};

// Returns the logits of each pixel of images of that size, bilinear between the cells' centres. [N, h, w, K]
// -> f32 [N, height, width, K]
inline Var logits_at(const Var& logits, int64_t height, int64_t width) {
  return resize_bilinear(cast(logits, sum_dtype(logits.dtype())), height, width);
}

}  // namespace saccade
