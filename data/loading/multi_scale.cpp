#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/images/resize.h"
#include "data/loading/mix.h"

namespace saccade {
namespace {

Tensor nearest_pixels(const Tensor& from_images, int64_t height, int64_t width) {
  const int64_t N = from_images.dim(0), H = from_images.dim(1), W = from_images.dim(2);
  auto sources = [](int64_t in, int64_t out) {  // in f32, like torch
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
      const uint8_t* from = from_images.data<uint8_t>() + (n * H + row) * W * 3;
      for (int64_t column : columns) {
        std::memcpy(to, from + column * 3, 3);
        to += 3;
      }
    }
  return images;
}

Tensor between_pixels(const Tensor& from_images, int64_t height, int64_t width) {
  const int64_t N = from_images.dim(0), H = from_images.dim(1), W = from_images.dim(2);
  Tensor images = Tensor::empty({N, height, width, 3}, DType::kU8);
  for (int64_t n = 0; n < N; ++n) {
    Image image(H, W);
    std::memcpy(image.rgb.data(), from_images.data<uint8_t>() + n * H * W * 3,
                static_cast<size_t>(H * W * 3));
    const Image resized = resize_image(image, height, width, Filter::kFourPixels);
    std::memcpy(images.data<uint8_t>() + n * height * width * 3, resized.rgb.data(),
                static_cast<size_t>(height * width * 3));
  }
  return images;
}

}  // namespace

void resize_batch(Batch& batch, int64_t height, bool bilinear) {
  check_filled(batch, "resize_batch");
  const int64_t H = batch.images.dim(1), W = batch.images.dim(2);
  const int64_t width = std::max<int64_t>(
      1, std::llround(static_cast<double>(W) * static_cast<double>(height) / static_cast<double>(H)));
  if (height == H && width == W) return;
  batch.images =
      bilinear ? between_pixels(batch.images, height, width) : nearest_pixels(batch.images, height, width);
  for (Target& t : batch.targets) {
    t.height = height;
    t.width = width;
  }
}

}  // namespace saccade
