// A NaN or an infinity in the gradient of samples must reach the gradients of what was sampled, on every
// device, since the trainer looks for it there. On the way the kernels sort, and sum in fixed point.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/engine.h"
#include "autograd/ops.h"
#include "core/runtime/kernel.h"
#include "core/tensor/device.h"

namespace saccade {
namespace {

// Values of both signs below 0.6, none on a cell of the maps below.
Var leaf(const Shape& shape, Device device) {
  Tensor t = Tensor::empty(shape, DType::kF32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = std::sin(1.7f * static_cast<float>(i)) * 0.6f;
  return Var(t.to(device), true);
}

bool finite(const Tensor& t) {
  for (float v : t.to_vector<float>())
    if (!std::isfinite(v)) return false;
  return true;
}

// Calls f(device, bad) with every kernel of every device.
template <class F>
void with_all_kernels(const F& f) {
  for (Device device : {Device::kCpu, Device::kCuda}) {
    if (device == Device::kCuda && !cuda_problem().empty()) continue;
    for (bool generic : {false, true}) {
      for (float bad : {NAN, INFINITY, -INFINITY}) {
        SCOPED_TRACE(testing::Message() << name_of(device) << (generic ? ", generic, " : ", tuned, ") << bad);
        execution().generic_kernels = generic;
        f(device, bad);
        execution().generic_kernels = false;
      }
    }
  }
}

Tensor gradient_with(float bad, int64_t at, const Shape& shape, Device device) {
  Tensor dy = Tensor::full(shape, 0.5);
  dy.data<float>()[at] = bad;
  return dy.to(device);
}

TEST(NonfiniteGradients, OfGridSample) {
  with_all_kernels([](Device device, float bad) {
    Var x = leaf({2, 5, 4, 8}, device), grid = leaf({2, 6, 2}, device);
    Var y = grid_sample(x, grid, true);
    backward(y, gradient_with(bad, 9 * 8 + 3, y.shape(), device));  // the second image's fourth point
    EXPECT_FALSE(finite(x.grad().slice(0, 1, 2)));
    EXPECT_FALSE(finite(grid.grad().slice(0, 1, 2).slice(1, 3, 4)));
    EXPECT_TRUE(finite(x.grad().slice(0, 0, 1)));
    EXPECT_TRUE(finite(grid.grad().slice(0, 0, 1)));
    EXPECT_TRUE(finite(grid.grad().slice(1, 0, 3)));
  });
}

TEST(NonfiniteGradients, OfSampledPositionBias) {
  with_all_kernels([](Device device, float bad) {
    Var table = leaf({4, 5, 7}, device), query = leaf({2, 6, 2}, device), key = leaf({2, 2, 5, 2}, device);
    Var y = sampled_position_bias(table, query, key);  // [2, 4, 6, 5]
    // The first image's third head, which is of the second group: query 1, key 2.
    backward(y, gradient_with(bad, (2 * 6 + 1) * 5 + 2, y.shape(), device));
    EXPECT_FALSE(finite(table.grad().slice(0, 2, 3)));
    EXPECT_FALSE(finite(query.grad().slice(0, 0, 1).slice(1, 1, 2)));
    EXPECT_FALSE(finite(key.grad().slice(0, 0, 1).slice(1, 1, 2).slice(2, 2, 3)));
    EXPECT_TRUE(finite(query.grad().slice(0, 1, 2)));
    EXPECT_TRUE(finite(key.grad().slice(0, 1, 2)));
  });
}

}  // namespace
}  // namespace saccade
