// Tests 3x3 convolutions by Winograd's algorithm, on all machines: against the generic loops in f64, and with
// the errors of plain sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/kernels/common/vector_cpu.h"
#include "core/kernels/conv2d/conv2d.h"
#include "core/kernels/conv2d/winograd_cpu.h"
#include "core/kernels/conv2d_levels/conv2d_levels.h"
#include "core/kernels/matmul/routes_cpu.h"
#include "core/runtime/parallel.h"
#include "core/tensor/allocator.h"
#include "core/tensor/execution.h"
#include "tests/compare_tensors.h"
#include "tests/normal_tensor.h"

namespace saccade {
namespace {

using cpu::Winograd;

struct Operands {
  Tensor x, w, bias, dy;
  kernels::ConvParams p;
};

// Returns the map after bias and ReLU and the gradients of the input and of the weights.
std::vector<Tensor> convolve(const Operands& o, MathMode math) {
  ExecutionScope scope;
  execution().math = math;
  execution().generic_kernels = o.x.dtype() == DType::kF64;
  std::vector<Tensor> out{o.dy.empty_like(), o.x.empty_like(), o.w.empty_like()};
  kernels::conv2d_forward(o.x, o.w, o.bias, o.p, Activation::kRelu, out[0]);
  kernels::conv2d_backward_data(o.dy, o.w, o.p, out[1]);
  kernels::conv2d_backward_weight(o.dy, o.x, o.p, out[2]);
  return out;
}

// Returns the same from our own implementation.
std::vector<Tensor> convolve_here(const Operands& o, Winograd kind) {
  std::vector<Tensor> out{o.dy.empty_like(), o.x.empty_like(), Tensor::empty(o.w.shape())};
  cpu::winograd_forward(o.x, o.w, o.bias, kind, Activation::kRelu, out[0]);
  cpu::winograd_backward_data(o.dy, o.w, kind, out[1]);
  cpu::winograd_backward_weight(o.dy, o.x, kind, out[2]);
  return out;
}

std::vector<Winograd> kinds_of(const Operands& o) {
  if (o.p.stride == 2) return {Winograd::kStrided};
  return {Winograd::kSame3, Winograd::kSame4};
}

Operands converted(const Operands& o, DType type) {
  return {o.x.to(type), o.w.to(type), type == DType::kF64 ? o.bias.to(type) : o.bias, o.dy.to(type), o.p};
}

bool takes_winograd(const Operands& o, cpu::Pass pass) {
  const auto route = cpu::conv_route(pass, o.x, o.w, o.dy, o.p);
  return route != cpu::ConvRoute::kOneDnn && route != cpu::ConvRoute::kPacked;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return same_bits(x, y); });
}

struct Size {
  int64_t images, height, width, in, out, stride;
  bool pays;  // so that programs for wide registers must use it
};

class WinogradTest : public testing::TestWithParam<Size> {
 protected:
  void SetUp() override {
    const Size s = GetParam();
    o_.p = {.stride = s.stride, .padding = 1};
    o_.x = normal_tensor({s.images, s.height, s.width, s.in}, 1);
    o_.w = normal_tensor({s.out, s.in, 3, 3}, 2);
    o_.bias = normal_tensor({s.out}, 3);
    o_.dy = normal_tensor({s.images, kernels::conv_output_size(s.height, 3, o_.p),
                           kernels::conv_output_size(s.width, 3, o_.p), s.out},
                          4);
    allocator(Device::kCpu).trim();
    allocator(Device::kCpu).set_debug({.poison = true, .guard = true});
  }
  void TearDown() override { allocator(Device::kCpu).set_debug({}); }
  Operands o_;
};

// The largest errors seen are 1.2e-5 of the root mean square, and 8.5e-6 for plain sums.
TEST_P(WinogradTest, NearTheLoopsInF64) {
  auto expected = convolve(converted(o_, DType::kF64), MathMode::kExact);
  auto exact = convolve(o_, MathMode::kExact), fast = convolve(o_, MathMode::kTf32);
  for (size_t i = 0; i < fast.size(); ++i) {
    EXPECT_LT(error_of(fast[i], expected[i]), 4e-5) << "result " << i;
    EXPECT_LT(error_of(exact[i], expected[i]), 3e-5) << "result " << i;
  }
  EXPECT_TRUE(same_bits(fast, convolve(o_, MathMode::kTf32)));
  // Its own bits where the table of routes chooses it; F(3x3, 3x3) unless products need not be exact.
  const auto exact_here = convolve_here(o_, kinds_of(o_).front()),
             fast_here = convolve_here(o_, kinds_of(o_).back());
  for (size_t i = 0; i < 3; ++i) {
    const bool taken = takes_winograd(o_, static_cast<cpu::Pass>(i));
    EXPECT_EQ(same_bits(exact[i], exact_here[i]), taken) << "result " << i;
    EXPECT_EQ(same_bits(fast[i], fast_here[i]), taken) << "result " << i;
    EXPECT_TRUE(taken || !GetParam().pays || !cpu::kWideRegisters) << "result " << i;
    EXPECT_EQ(same_bits(exact[i], fast[i]), GetParam().stride == 2 || !taken) << "result " << i;
  }
}

TEST_P(WinogradTest, OursNearTheLoopsInF64) {
  auto expected = convolve(converted(o_, DType::kF64), MathMode::kExact);
  for (Winograd kind : kinds_of(o_)) {
    auto got = convolve_here(o_, kind);
    // The largest errors seen are 1.2e-5, and 7.0e-6 for the two whose errors must be like those of plain
    // sums (PyTorch's: 1.8e-5).
    const double bound = kind == Winograd::kSame4 ? 4e-5 : 2e-5;
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_LT(error_of(got[i], expected[i]), bound)
          << "kind " << static_cast<int>(kind) << ", result " << i;
  }
}

// The factors are widened, so only results are rounded.
TEST_P(WinogradTest, OursRoundBf16Once) {
  const Operands low = converted(o_, DType::kBF16), wide = converted(low, DType::kF32);
  for (Winograd kind : kinds_of(o_)) {
    auto exact = convolve_here(wide, kind), got = convolve_here(low, kind);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(same_bits(got[i], exact[i].to(got[i].dtype()))) << "result " << i;
  }
}

TEST_P(WinogradTest, OursDoNotDependOnThreadsOrNeighbours) {
  const int threads = thread_count();
  parallel_debug().ignore_grain = true;
  Operands last = o_;
  for (Tensor* t : {&last.x, &last.dy}) *t = t->slice(0, t->dim(0) - 1, t->dim(0)).contiguous();
  for (Winograd kind : kinds_of(o_)) {
    set_thread_count(1);
    auto one = convolve_here(o_, kind);
    set_thread_count(3);
    EXPECT_TRUE(same_bits(one, convolve_here(o_, kind)));
    auto alone = convolve_here(last, kind);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(same_bits(one[i].slice(0, one[i].dim(0) - 1, one[i].dim(0)), alone[i])) << i;
  }
  set_thread_count(threads);
  parallel_debug().ignore_grain = false;
}

INSTANTIATE_TEST_SUITE_P(Sizes, WinogradTest,
                         testing::Values(Size{2, 64, 64, 256, 32, 1, true}, Size{1, 40, 40, 32, 256, 1, true},
                                         Size{2, 20, 27, 80, 36, 1, true}, Size{2, 24, 25, 32, 133, 1, true},
                                         Size{2, 17, 17, 32, 131, 2, false},
                                         Size{3, 13, 21, 48, 16, 1, false}, Size{1, 7, 5, 16, 80, 1, false},
                                         Size{5, 4, 4, 64, 64, 1, false}, Size{2, 1, 9, 16, 16, 1, false},
                                         Size{1, 160, 96, 16, 32, 1, false}, Size{2, 9, 9, 80, 16, 1, false},
                                         Size{2, 80, 80, 128, 64, 2, true}, Size{1, 79, 81, 64, 256, 2, true},
                                         Size{3, 25, 42, 48, 16, 2, false}, Size{1, 14, 9, 16, 80, 2, false},
                                         Size{2, 1, 19, 16, 16, 2, false}, Size{2, 17, 17, 80, 16, 2, false},
                                         // Many channels: several units of work, and several spans of tiles.
                                         Size{2, 12, 13, 192, 212, 1, true},
                                         Size{1, 97, 100, 144, 16, 1, false},
                                         Size{1, 140, 133, 144, 48, 2, false}));

// Maps and gradients have the bits that each level has alone; the gradient of the weights is one sum.
TEST(Winograd, OfSeveralLevels) {
  const FeatureLevels levels{{20, 27}, {10, 14}, {5, 7}, {3, 4}, {1, 1}};
  const int64_t N = 2, in = 48, out = 80;
  const Tensor x = normal_tensor({N * levels.tokens(), in}, 1), w = normal_tensor({out, in, 3, 3}, 2),
               bias = normal_tensor({out}, 3), dy = normal_tensor({N * levels.tokens(), out}, 4);
  const auto run = [&](const auto& forward, const auto& data, const auto& weight) {
    std::vector<Tensor> all{dy.empty_like(), x.empty_like(), w.empty_like()};
    forward(all[0]), data(all[1]), weight(all[2]);
    return all;
  };
  for (Winograd kind : {Winograd::kSame3, Winograd::kSame4}) {
    const auto got =
        run([&](Tensor& y) { cpu::winograd_forward(x, w, bias, kind, Activation::kRelu, y, levels); },
            [&](Tensor& dx) { cpu::winograd_backward_data(dy, w, kind, dx, levels); },
            [&](Tensor& dw) { cpu::winograd_backward_weight(dy, x, kind, dw, levels); });
    auto sum = w.to(DType::kF64);
    sum.fill(0);
    for (int64_t l = 0; l < levels.size(); ++l) {
      Operands o{kernels::level_of_rows(x, levels, l),
                 w,
                 bias,
                 kernels::level_of_rows(dy, levels, l),
                 {.padding = 1}};
      const auto alone = convolve_here(o, kind);
      for (size_t i = 0; i < 2; ++i)
        EXPECT_TRUE(same_bits(kernels::level_of_rows(got[i], levels, l), alone[i]))
            << "level " << l << ", result " << i;
      const auto exact = convolve(converted(o, DType::kF64), MathMode::kExact)[2];
      for (int64_t i = 0; i < sum.numel(); ++i) sum.data<double>()[i] += exact.data<double>()[i];
    }
    EXPECT_LT(error_of(got[2], sum), kind == Winograd::kSame4 ? 4e-5 : 2e-5);
    // The kernels use it where they would for the largest map alone.
    ExecutionScope scope;
    execution().math = kind == Winograd::kSame3 ? MathMode::kExact : MathMode::kTf32;
    const auto kernel =
        run([&](Tensor& y) { kernels::conv2d_levels_forward(x, levels, w, bias, Activation::kRelu, y); },
            [&](Tensor& dx) { kernels::conv2d_levels_backward_data(dy, levels, w, dx); },
            [&](Tensor& dw) { kernels::conv2d_levels_backward_weight(dy, x, levels, dw); });
    const Operands first{
        kernels::level_of_rows(x, levels, 0), w, bias, kernels::level_of_rows(dy, levels, 0), {.padding = 1}};
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(same_bits(kernel[i], got[i]), takes_winograd(first, static_cast<cpu::Pass>(i)))
          << "result " << i;
  }
}

}  // namespace
}  // namespace saccade
