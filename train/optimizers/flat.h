// Allocates many tensors in one block of memory.
#pragma once

#include <vector>

#include "core/tensor/integers.h"
#include "core/tensor/tensor.h"

namespace saccade {

// Returns f32 zeros of these shapes, views of one storage: each begins at a multiple of 256 bytes.
inline std::vector<Tensor> flat_zeros(const std::vector<Shape>& shapes, Device device) {
  constexpr int64_t kStep = 64;
  auto room = [](const Shape& s) { return round_up(s.numel(), kStep); };
  int64_t size = 0;
  for (const Shape& s : shapes) size += room(s);
  Tensor all = Tensor::zeros({size}, DType::kF32, device);
  std::vector<Tensor> views;
  int64_t begin = 0;
  for (const Shape& s : shapes) {
    views.push_back(all.slice(0, begin, begin + s.numel()).reshape(s));
    begin += room(s);
  }
  return views;
}

}  // namespace saccade
