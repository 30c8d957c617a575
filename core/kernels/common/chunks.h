// Lists of tensors split into chunks, so that one launch covers them all.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/tensor/tensor.h"

namespace saccade::kernels {

// Uploads a list of chunks to the tensors' device, as u8.
template <class Chunk>
Tensor upload_chunks(const std::vector<Chunk>& chunks, Device device) {
  auto* bytes = reinterpret_cast<const uint8_t*>(chunks.data());
  return Tensor::from(Shape{static_cast<int64_t>(chunks.size() * sizeof(Chunk))},
                      std::span<const uint8_t>(bytes, chunks.size() * sizeof(Chunk)), device);
}

template <class Chunk>
const Chunk* chunks_of(const Tensor& table) {
  return static_cast<const Chunk*>(table.raw());
}

// Calls f(begin, count) for each chunk of n elements.
template <class F>
void for_chunks(int64_t n, int64_t chunk, F&& f) {
  for (int64_t begin = 0; begin < n; begin += chunk) f(begin, std::min(chunk, n - begin));
}

// Returns the one of `count` tensors to which chunk i belongs; `first` of each is the index of its first
// chunk.
template <class Item>
SACCADE_HD const Item& item_of(const Item* items, int64_t count, int64_t i) {
  int64_t low = 0;
  while (count > 1) {
    const int64_t half = count / 2;
    if (items[low + half].first <= i) {
      low += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return items[low];
}

}  // namespace saccade::kernels
