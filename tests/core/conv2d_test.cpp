// Tests the convolutions on the CPU other than Winograd's (winograd_test.cpp). They must stay within their
// memory, including oneDNN's scratch memory: the allocator puts guard bytes behind every block and ends the
// program if they have changed. Those that are products of the positions that they read must equal the loops
// in f64.
#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "core/kernels/conv2d/conv2d.h"
#include "core/kernels/matmul/routes_cpu.h"
#include "core/runtime/parallel.h"
#include "core/tensor/allocator.h"
#include "core/tensor/execution.h"
#include "tests/compare_tensors.h"
#include "tests/normal_tensor.h"

namespace saccade {
namespace {

void convolve(int64_t in, int64_t out, int64_t size, int64_t window, int64_t stride, DType dtype) {
  SCOPED_TRACE(testing::Message() << in << " to " << out << " channels, window " << window << ", stride "
                                  << stride);
  const kernels::ConvParams p{.stride = stride, .padding = window / 2};
  const int64_t side = kernels::conv_output_size(size, window, p);
  Tensor x = Tensor::full({1, size, size, in}, 0.5, dtype),
         w = Tensor::full({out, in, window, window}, 0.25, dtype);
  Tensor y = Tensor::empty({1, side, side, out}, dtype), dx = Tensor::empty(x.shape(), dtype);
  Tensor dw = Tensor::empty(w.shape(), DType::kF32);
  kernels::conv2d_forward(x, w, Tensor(), p, Activation::kNone, y);
  kernels::conv2d_backward_data(y, w, p, dx);
  kernels::conv2d_backward_weight(Tensor::full(y.shape(), 1, dtype), x, p, dw);
  if (window == 1) {
    EXPECT_EQ(dw.to_vector<float>(),
              std::vector<float>(static_cast<size_t>(in * out), static_cast<float>(side * side) / 2));
  }
}

// For strided 1x1 convolutions with few channels oneDNN's weight gradient writes beyond its scratch memory.
TEST(Conv2dMemory, StaysWithinItsBlocks) {
  const int before = omp_get_max_threads();
  allocator(Device::kCpu).trim();
  allocator(Device::kCpu).set_debug({.guard = true});
  omp_set_num_threads(2);
  for (int64_t in : {1, 7, 15, 16})
    for (int64_t out : {1, 17})
      for (auto [size, window, stride] : {std::array{16, 1, 2}, {56, 1, 4}, {9, 3, 2}})
        for (DType dtype : {DType::kF32, DType::kBF16}) convolve(in, out, size, window, stride, dtype);
  omp_set_num_threads(before);
  allocator(Device::kCpu).set_debug({});
}

struct StridedProduct {
  Tensor x, w, bias, dy;
  kernels::ConvParams p;

  StridedProduct(int64_t height, int64_t width, int64_t in, int64_t out, int64_t stride)
      : p{.stride = stride, .padding = 0} {
    const int64_t rows = kernels::conv_output_size(height, 1, p),
                  columns = kernels::conv_output_size(width, 1, p);
    x = normal_tensor({2, height, width, in}, 1);
    w = normal_tensor({out, in, 1, 1}, 2);
    bias = normal_tensor({out}, 3);
    dy = normal_tensor({2, rows, columns, out}, 4);
  }
  // Returns the map and the gradients of the input and of the weights.
  std::vector<Tensor> run(DType type) const {
    ExecutionScope scope;
    execution().generic_kernels = type == DType::kF64;
    const Tensor x_ = x.to(type), w_ = w.to(type), dy_ = dy.to(type);
    std::vector<Tensor> out{dy_.empty_like(), x_.empty_like(), w_.empty_like()};
    kernels::conv2d_forward(x_, w_, bias.to(type), p, Activation::kRelu, out[0]);
    kernels::conv2d_backward_data(dy_, w_, p, out[1]);
    kernels::conv2d_backward_weight(dy_, x_, p, out[2]);
    return out;
  }
};

class ConvRoutesTest : public testing::Test {
 protected:
  void SetUp() override {
    allocator(Device::kCpu).trim();
    allocator(Device::kCpu).set_debug({.poison = true, .guard = true});
  }
  void TearDown() override {
    cpu::route_debug() = {};
    allocator(Device::kCpu).set_debug({});
  }
};

TEST_F(ConvRoutesTest, StridedProductsAreNearTheLoopsInF64) {
  cpu::route_debug().conv = cpu::ConvRoute::kGathered;
  // The last row or column of these sizes is read, is not read, or is one of several that are not.
  for (auto [height, width, stride] :
       {std::array{16, 11, 2}, {7, 8, 2}, {1, 9, 2}, {12, 10, 4}, {11, 9, 3}}) {
    SCOPED_TRACE(testing::Message() << height << " x " << width << ", stride " << stride);
    const StridedProduct o(height, width, 48, 33, stride);
    const auto expected = o.run(DType::kF64), got = o.run(DType::kF32);
    for (size_t i = 0; i < got.size(); ++i) {
      const auto a = got[i].to_vector<double>(), b = expected[i].to_vector<double>();
      ASSERT_EQ(a.size(), b.size());
      for (size_t k = 0; k < a.size(); ++k)
        ASSERT_NEAR(a[k], b[k], 1e-4) << "result " << i << ", element " << k;
    }
  }
}

TEST_F(ConvRoutesTest, BitsOfStridedProductsDoNotDependOnThreads) {
  cpu::route_debug() = {.product = cpu::ProductRoute::kPacked, .conv = cpu::ConvRoute::kGathered};
  const StridedProduct o(30, 41, 64, 48, 2);
  const int threads = thread_count();
  parallel_debug().ignore_grain = true;
  set_thread_count(1);
  const auto one = o.run(DType::kF32);
  set_thread_count(3);
  const auto three = o.run(DType::kF32);
  set_thread_count(threads);
  parallel_debug().ignore_grain = false;
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], three[i])) << "result " << i;
}

// A shift after the ReLU is added to the same numbers, whichever route computes them; bf16 is rounded once
// instead of twice.
TEST_F(ConvRoutesTest, ShiftFollowsTheRelu) {
  using cpu::ConvRoute;
  using cpu::ProductRoute;
  struct Case {
    std::optional<ProductRoute> product;
    std::optional<ConvRoute> conv;
    int64_t window, stride, groups;
  };
  const Case cases[] = {{ProductRoute::kOneDnn, {}, 1, 1, 1},      {ProductRoute::kPacked, {}, 1, 1, 1},
                        {{}, ConvRoute::kGathered, 1, 2, 1},       {{}, ConvRoute::kOneDnn, 3, 1, 1},
                        {{}, ConvRoute::kOneDnn, 5, 1, 32},        {{}, ConvRoute::kPacked, 3, 2, 1},
                        {{}, ConvRoute::kWinograd3, 3, 1, 1},      {{}, ConvRoute::kWinograd4, 3, 1, 1},
                        {{}, ConvRoute::kWinogradStrided, 3, 2, 1}};
  const Tensor x = normal_tensor({1, 11, 9, 32}, 1), bias = normal_tensor({32}, 2);
  for (DType type : {DType::kF32, DType::kBF16})
    for (const Case& c : cases) {
      SCOPED_TRACE(testing::Message() << "case " << &c - cases << " in " << name_of(type));
      cpu::route_debug() = {.product = c.product, .conv = c.conv};
      const kernels::ConvParams p{.stride = c.stride, .padding = c.window / 2, .groups = c.groups};
      const Tensor w = normal_tensor({32, 32 / c.groups, c.window, c.window}, 3);
      const int64_t H = kernels::conv_output_size(11, c.window, p),
                    W = kernels::conv_output_size(9, c.window, p);
      Tensor plain = Tensor::empty({1, H, W, 32}, type), shifted = plain.empty_like();
      kernels::conv2d_forward(x.to(type), w.to(type), bias, p, Activation::kRelu, plain);
      kernels::conv2d_relu_shift(x.to(type), w.to(type), bias, Tensor::full({1}, -0.75), p, shifted);
      const auto a = plain.to_vector<double>(), b = shifted.to_vector<double>();
      const double rounding = type == DType::kF32 ? 1e-6 : 0.01;
      int64_t cut = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        cut += a[i] == 0;
        ASSERT_NEAR(a[i] - 0.75, b[i], rounding * (1 + std::abs(a[i]))) << "element " << i;
      }
      EXPECT_GT(cut, 100);
    }
}

}  // namespace
}  // namespace saccade
