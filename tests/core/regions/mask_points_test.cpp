// What masks are at points, by hand, on each device.
#include "core/kernels/mask_points/mask_points.h"

#include <gtest/gtest.h>

#include "core/tensor/device.h"

namespace saccade {
namespace {

TEST(MaskPoints, AreTheNearestPixels) {
  const Tensor bitmaps =
      Tensor::from<uint8_t>({2, 2, 4}, {1, 0, 0, 1, 0, 1, 0, 0, /**/ 0, 0, 1, 0, 1, 0, 0, 0});
  const Tensor rows = Tensor::from<int64_t>({3}, {1, 0, 1});
  // Centres of pixels, the corners, and a place between two columns, where the even one counts.
  const Tensor points = Tensor::from<float>(
      {3, 3, 2}, {0.625, 0.25, 0.125, 0.75, 0.875, 0.25, 0, 0, 1, 0, 0.375, 0.75, 1, 1, 0, 1, 0.75, 0.25});
  const std::vector<float> expected{1, 1, 0, 1, 1, 1, 0, 1, 1};
  for (Device device : {Device::kCpu, Device::kCuda}) {
    if (device == Device::kCuda && !cuda_problem().empty()) continue;
    Tensor inside = Tensor::empty({3, 3}, DType::kF32, device);
    kernels::mask_points(bitmaps.to(device), rows.to(device), points.to(device), inside);
    EXPECT_EQ(inside.to(Device::kCpu).to_vector<float>(), expected);
  }
}

}  // namespace
}  // namespace saccade
