#include "core/kernels/normalize_image/normalize_image.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

TEST(NormalizeImage, ScalesEveryChannelAndZeroesThePadding) {
  std::vector<uint8_t> pixels(2 * 3 * 5 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37);
  Tensor images = Tensor::from(Shape{2, 3, 5, 3}, pixels);
  Tensor mask = Tensor::zeros({2, 3, 5}, DType::kBool);
  for (int64_t i = 0; i < mask.numel(); i += 4) mask.data<bool>()[i] = true;
  kernels::ImageNormalization norm;
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    Tensor y = Tensor::full({2, 3, 5, 3}, -100, dtype);
    kernels::normalize_image(images, mask, norm, y);
    auto values = y.to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      size_t c = i % 3;
      double expected = (i / 3) % 4 == 0 ? 0 : (pixels[i] / 255.0 - norm.mean[c]) / norm.std[c];
      // One rounding of the output type, relative to values of up to 2.7.
      EXPECT_NEAR(values[i], expected, dtype == DType::kBF16 ? 1e-2 : 1e-6);
    }
  }
}

TEST(NormalizeImage, RefusesOtherShapes) {
  Tensor images = Tensor::zeros({1, 2, 2, 3}, DType::kU8), mask = Tensor::zeros({1, 2, 3}, DType::kBool);
  Tensor y = Tensor::empty({1, 2, 2, 3});
  EXPECT_THROW(kernels::normalize_image(images, mask, {}, y), Error);
  Tensor none = Tensor::zeros({0, 2, 2, 3}, DType::kU8), none_mask = Tensor::zeros({0, 2, 2}, DType::kBool);
  Tensor none_y = Tensor::empty({0, 2, 2, 3});
  kernels::normalize_image(none, none_mask, {}, none_y);
}

}  // namespace
}  // namespace saccade
