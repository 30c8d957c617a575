#include "models/segmenter.h"

namespace saccade {

Var logits_at(const Var& logits, int64_t height, int64_t width) {
  return resize_bilinear(cast(logits, logits.dtype() == DType::kF64 ? DType::kF64 : DType::kF32), height,
                         width);
}

}  // namespace saccade
