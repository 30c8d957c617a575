// Lists of tensors cut into pieces, so that one launch covers them all.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/tensor/tensor.h"

namespace saccade::kernels {

// A list of pieces where the tensors live: u8.
template <class Piece>
Tensor upload_pieces(const std::vector<Piece>& pieces, Device device) {
  auto* bytes = reinterpret_cast<const uint8_t*>(pieces.data());
  return Tensor::from(Shape{static_cast<int64_t>(pieces.size() * sizeof(Piece))},
                      std::span<const uint8_t>(bytes, pieces.size() * sizeof(Piece)), device);
}

template <class Piece>
const Piece* pieces_of(const Tensor& table) {
  return static_cast<const Piece*>(table.raw());
}

// f(begin, count) for each piece of n elements.
template <class F>
void cut(int64_t n, int64_t piece, F&& f) {
  for (int64_t begin = 0; begin < n; begin += piece) f(begin, std::min(piece, n - begin));
}

}  // namespace saccade::kernels
