// How the kernels of the norm see their tensors, for optimizer.cpp and optimizer_cuda.cu.
#pragma once

#include "core/kernels/optimizer/update.h"

namespace saccade::kernels {

struct SquareChunk {
  const float* x;
  int64_t count;
  bool guard;  // adds 0 when finite, else NaN
};

inline std::vector<SquareChunk> square_chunks(const Tensor& norm, std::span<const Tensor> grads,
                                              std::span<const Tensor> guards, int64_t chunk) {
  SACCADE_CHECK(norm.dtype() == DType::kF64 && norm.numel() == 1, "[gradient_norm] the norm must be one f64");
  std::vector<SquareChunk> chunks;
  for (bool guard : {false, true}) {
    for (const Tensor& t : guard ? guards : grads) {
      check_list("gradient_norm", t, t.numel());
      const float* x = t.data<float>();
      for_chunks(t.numel(), chunk, [&](int64_t begin, int64_t count) {
        chunks.push_back({x + begin, count, guard});
      });
    }
  }
  return chunks;
}

}  // namespace saccade::kernels
