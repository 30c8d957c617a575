#include "data/loading/batch_sizes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/tensor/error.h"
#include "data/loading/mix.h"

namespace saccade {

void resize_batch(Batch& batch, int64_t height) {
  check_filled(batch, "resize_batch");
  const int64_t N = batch.images.dim(0), H = batch.images.dim(1), W = batch.images.dim(2);
  const int64_t width = std::max<int64_t>(
      1, std::llround(static_cast<double>(W) * static_cast<double>(height) / static_cast<double>(H)));
  if (height == H && width == W) return;
  auto sources = [](int64_t in, int64_t out) {  // in f32, as torch
    const float scale = static_cast<float>(in) / static_cast<float>(out);
    std::vector<int64_t> from;
    for (int64_t i = 0; i < out; ++i)
      from.push_back(std::min(static_cast<int64_t>(static_cast<float>(i) * scale), in - 1));
    return from;
  };
  const std::vector<int64_t> rows = sources(H, height), columns = sources(W, width);
  Tensor images = Tensor::empty({N, height, width, 3}, DType::kU8);
  uint8_t* to = images.data<uint8_t>();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t row : rows) {
      const uint8_t* from = batch.images.data<uint8_t>() + (n * H + row) * W * 3;
      for (int64_t column : columns) {
        std::memcpy(to, from + column * 3, 3);
        to += 3;
      }
    }
  batch.images = images;
  for (Target& t : batch.targets) {
    t.height = height;
    t.width = width;
  }
}

}  // namespace saccade
