// Tests the values of masks at points against values worked out by hand, on each device.
#include "core/kernels/mask_points/mask_points.h"

#include <gtest/gtest.h>

#include "core/tensor/device.h"
#include "core/tensor/philox.h"

namespace saccade {
namespace {

TEST(MaskPoints, AreTheNearestPixels) {
  // 1 0 0 1   0 0 1 0
  // 0 1 0 0   1 0 0 0
  const Tensor runs = Tensor::from<int64_t>({5, 2}, {0, 1, 3, 4, 6, 7, /**/ 1, 2, 4, 5}),
               begins = Tensor::from<int64_t>({3}, {0, 3, 5});
  const Tensor rows = Tensor::from<int64_t>({3}, {1, 0, 1});
  // The points are centres of pixels, corners, and a place between two columns, where the even one counts.
  const Tensor points = Tensor::from<float>(
      {3, 3, 2}, {0.625, 0.25, 0.125, 0.75, 0.875, 0.25, 0, 0, 1, 0, 0.375, 0.75, 1, 1, 0, 1, 0.75, 0.25});
  const std::vector<float> expected{1, 1, 0, 1, 1, 1, 0, 1, 1};
  for (Device device : {Device::kCpu, Device::kCuda}) {
    if (device == Device::kCuda && !cuda_problem().empty()) continue;
    Tensor inside = Tensor::empty({3, 3}, DType::kF32, device);
    kernels::mask_points(runs.to(device), begins.to(device), 2, 4, rows.to(device), points.to(device),
                         inside);
    EXPECT_EQ(inside.to(Device::kCpu).to_vector<float>(), expected);
  }
}

TEST(MaskPoints, RandomOnesAreThoseOfTheirRow) {
  const Tensor rows = Tensor::from<int64_t>({2, 2}, {7, 3, int64_t{1} << 40, 5});
  for (Device device : {Device::kCpu, Device::kCuda}) {
    if (device == Device::kCuda && !cuda_problem().empty()) continue;
    Tensor points = Tensor::empty({2, 3, 2}, DType::kF32, device);  // half of the second block is left over
    kernels::random_points(rows.to(device), 11, points);
    const std::vector<float> got = points.to(Device::kCpu).to_vector<float>();
    for (uint64_t row = 0; row < 2; ++row)
      for (uint64_t i = 0; i < 6; ++i) {
        const Philox bits = Philox::generate(11, row == 0 ? 7 : uint64_t{1} << 40,
                                             uint64_t{row == 0 ? 3u : 5u} << 32 | i / 4);
        EXPECT_EQ(got[row * 6 + i], uniform_from_bits(bits.x[i % 4]));
      }
  }
}

}  // namespace
}  // namespace saccade
