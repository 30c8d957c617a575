// The tensors of the norm's kernels, for optimizer.cpp and optimizer_cuda.cu.
#pragma once

#include "core/kernels/optimizer/update.h"

namespace saccade::kernels {

struct SquareItem {
  const float* x;
  int64_t count;
  int64_t first;  // the index of its first chunk
  bool guard;     // adds 0 if finite, else NaN
};

// The tensors of a norm, split into chunks of `chunk` elements.
struct SquareList {
  const SquareItem* items;
  int64_t count, chunk;
  SACCADE_HD SquareItem cut(int64_t i) const {
    SquareItem part = item_of(items, count, i);
    const int64_t begin = (i - part.first) * chunk;
    part.x += begin;
    part.count = part.count - begin < chunk ? part.count - begin : chunk;
    return part;
  }
};

// Returns their list and sets `chunks` to the number of their chunks.
inline std::vector<SquareItem> square_items(const Tensor& norm, std::span<const Tensor> grads,
                                            std::span<const Tensor> guards, int64_t chunk, int64_t& chunks) {
  SACCADE_CHECK(norm.dtype() == DType::kF64 && norm.numel() == 1, "[gradient_norm] the norm must be one f64");
  std::vector<SquareItem> items;
  for (bool guard : {false, true}) {
    for (const Tensor& t : guard ? guards : grads) {
      check_list("gradient_norm", t, t.numel());
      items.push_back({t.data<float>(), t.numel(), chunks, guard});
      chunks += ceil_div(t.numel(), chunk);
    }
  }
  return items;
}

}  // namespace saccade::kernels
