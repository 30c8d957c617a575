#include "core/kernels/normalize_image/normalize_image.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

TEST(NormalizeImage, ScalesEveryChannelAndZeroesThePadding) {
  std::vector<uint8_t> pixels(2 * 3 * 5 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37);
  Tensor images = Tensor::from(Shape{2, 3, 5, 3}, pixels);
  const std::vector<int64_t> valid{3, 4, 2, 5};
  Tensor sizes = Tensor::from<int64_t>({2, 2}, valid);
  kernels::ImageNormalization norm;
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    Tensor y = Tensor::full({2, 3, 5, 3}, -100, dtype);
    kernels::normalize_image(images, sizes, norm, y);
    auto values = y.to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      size_t c = i % 3;
      const size_t n = i / 45;
      const auto row = static_cast<int64_t>(i / 15 % 3), column = static_cast<int64_t>(i / 3 % 5);
      const bool padding = row >= valid[2 * n] || column >= valid[2 * n + 1];
      double expected = padding ? 0 : (pixels[i] / 255.0 - norm.mean[c]) / norm.std[c];
      // One rounding of the output type, relative to values of up to 2.7.
      EXPECT_NEAR(values[i], expected, dtype == DType::kBF16 ? 1e-2 : 1e-6);
    }
  }
}

TEST(NormalizeImage, RefusesOtherShapes) {
  Tensor images = Tensor::zeros({1, 2, 2, 3}, DType::kU8), sizes = Tensor::zeros({1, 3}, DType::kI64);
  Tensor y = Tensor::empty({1, 2, 2, 3});
  EXPECT_THROW(kernels::normalize_image(images, sizes, {}, y), Error);
  Tensor none = Tensor::zeros({0, 2, 2, 3}, DType::kU8), none_y = Tensor::empty({0, 2, 2, 3});
  kernels::normalize_image(none, Tensor(), {}, none_y);
}

}  // namespace
}  // namespace saccade
