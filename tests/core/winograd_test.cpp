// 3x3 convolutions where f32 products need not be exact, by Winograd's algorithm: oneDNN's on a CPU with AVX-512, ours on others
// (which is tried on all). Against the generic loops in f64, beside the exact ones' error.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "core/kernels/conv2d/conv2d.h"
#include "core/kernels/conv2d/winograd_cpu.h"
#include "core/runtime/cpu/onednn.h"
#include "core/runtime/parallel.h"
#include "core/tensor/allocator.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"

namespace saccade {
namespace {

constexpr kernels::ConvParams kSame{.padding = 1};

Tensor normal_tensor(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.normal());
  return t;
}

// The map after bias and ReLU, the gradients of the input and of the weights.
std::vector<Tensor> convolve(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& dy,
                             MathMode math) {
  ExecutionScope scope;
  execution().math = math;
  execution().generic_kernels = x.dtype() == DType::kF64;
  std::vector<Tensor> out{dy.empty_like(), x.empty_like(), w.empty_like()};
  kernels::conv2d_forward(x, w, bias, kSame, Activation::kRelu, out[0]);
  kernels::conv2d_backward_data(dy, w, kSame, out[1]);
  kernels::conv2d_backward_weight(dy, x, kSame, out[2]);
  return out;
}

// The same by our own implementation.
std::vector<Tensor> convolve_here(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& dy) {
  std::vector<Tensor> out{dy.empty_like(), x.empty_like(), Tensor::empty(w.shape())};
  cpu::winograd_forward(x, w, bias, Activation::kRelu, out[0]);
  cpu::winograd_backward_data(dy, w, out[1]);
  cpu::winograd_backward_weight(dy, x, out[2]);
  return out;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// max |a - b| / rms(b)
double error_of(const Tensor& a, const Tensor& b) {
  auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double worst = 0, square = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::isnan(x[i]) ? INFINITY : std::max(worst, std::abs(x[i] - y[i]));
    square += y[i] * y[i];
  }
  return worst / std::sqrt(square / static_cast<double>(y.size()));
}

struct Size {
  int64_t images, height, width, in, out;
  bool is_winograd_without_avx512;  // tiles that are well filled
};

class Winograd : public testing::TestWithParam<Size> {
 protected:
  void SetUp() override {
    const Size s = GetParam();
    x_ = normal_tensor({s.images, s.height, s.width, s.in}, 1);
    w_ = normal_tensor({s.out, s.in, 3, 3}, 2);
    bias_ = normal_tensor({s.out}, 3);
    dy_ = normal_tensor({s.images, s.height, s.width, s.out}, 4);
    allocator(Device::kCpu).trim();
    allocator(Device::kCpu).set_debug({.poison = true, .guard = true});
  }
  void TearDown() override { allocator(Device::kCpu).set_debug({}); }
  Tensor x_, w_, bias_, dy_;
};

// The largest errors seen are 1.2e-5 of the root mean square, and 8.5e-6 of the exact sums.
TEST_P(Winograd, NearTheLoopsInF64) {
  auto wide = [](const Tensor& t) { return t.to(DType::kF64); };
  auto expected = convolve(wide(x_), wide(w_), wide(bias_), wide(dy_), MathMode::kExact);
  auto exact = convolve(x_, w_, bias_, dy_, MathMode::kExact);
  auto fast = convolve(x_, w_, bias_, dy_, MathMode::kTf32);
  auto again = convolve(x_, w_, bias_, dy_, MathMode::kTf32);
  bool other = false;
  for (size_t i = 0; i < fast.size(); ++i) {
    const double error = error_of(fast[i], expected[i]), exact_error = error_of(exact[i], expected[i]);
    EXPECT_LT(error, 4e-5) << "result " << i;
    EXPECT_LT(exact_error, 3e-5) << "result " << i;
    EXPECT_TRUE(same_bits(fast[i], again[i])) << "result " << i;
    other |= !same_bits(fast[i], exact[i]);
  }
  EXPECT_EQ(other, onednn::has_avx512() || GetParam().is_winograd_without_avx512)
      << "is Winograd's algorithm used?";
}

// Ours; the largest error seen is 1.2e-5.
TEST_P(Winograd, OursNearTheLoopsInF64) {
  auto wide = [](const Tensor& t) { return t.to(DType::kF64); };
  auto expected = convolve(wide(x_), wide(w_), wide(bias_), wide(dy_), MathMode::kExact);
  auto got = convolve_here(x_, w_, bias_, dy_);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(error_of(got[i], expected[i]), 4e-5) << "result " << i;
}

// The factors are widened: only results are rounded.
TEST_P(Winograd, OursRoundBf16Once) {
  for (Tensor* t : {&x_, &w_, &dy_}) *t = t->to(DType::kBF16);
  auto wide = [](const Tensor& t) { return t.to(DType::kF32); };
  auto exact = convolve_here(wide(x_), wide(w_), bias_, wide(dy_));
  auto got = convolve_here(x_, w_, bias_, dy_);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(same_bits(got[i], exact[i].to(got[i].dtype()))) << "result " << i;
}

TEST_P(Winograd, OursDoNotDependOnThreadsOrNeighbours) {
  const int threads = thread_count();
  parallel_debug().ignore_grain = true;
  set_thread_count(1);
  auto one = convolve_here(x_, w_, bias_, dy_);
  set_thread_count(3);
  auto three = convolve_here(x_, w_, bias_, dy_);
  const int64_t last = GetParam().images - 1;
  auto alone =
      convolve_here(x_.slice(0, last, last + 1), w_, bias_, dy_.slice(0, last, last + 1).contiguous());
  set_thread_count(threads);
  parallel_debug().ignore_grain = false;
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], three[i])) << "result " << i;
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(one[i].slice(0, last, last + 1), alone[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Sizes, Winograd,
                         testing::Values(Size{2, 64, 64, 128, 64, true}, Size{1, 40, 40, 32, 256, true},
                                         Size{3, 13, 21, 48, 16, true}, Size{1, 7, 5, 16, 80, false},
                                         Size{5, 4, 4, 64, 64, false}, Size{2, 1, 9, 16, 16, false},
                                         Size{1, 160, 96, 16, 32, true}, Size{2, 9, 9, 80, 16, true}));

// Threads that sum the weights' gradient over their own images do as their caller would: then it does not matter who has which.
TEST(WinogradThreads, TakeItAlike) {
  if (!onednn::has_avx512()) GTEST_SKIP() << "without AVX-512 one sum runs over all images, not one a thread";
  const int before = omp_get_max_threads();
  omp_set_num_threads(2);
  Tensor x = normal_tensor({3, 20, 20, 32}, 1), dy = normal_tensor({3, 20, 20, 32}, 2);
  auto copy_image = [](const Tensor& t, int64_t from, int64_t to) {
    std::memcpy(t.slice(0, to, to + 1).raw(), t.slice(0, from, from + 1).raw(), t.slice(0, 0, 1).bytes());
  };
  // Images 0 and 1, then 1 and 0.
  for (const Tensor& t : {x, dy}) copy_image(t, 0, 2);
  auto gradient = [&](int64_t first) {
    ExecutionScope scope;
    execution().math = MathMode::kTf32;
    Tensor dw = Tensor::empty({32, 32, 3, 3});
    kernels::conv2d_backward_weight(dy.slice(0, first, first + 2), x.slice(0, first, first + 2), kSame, dw);
    return dw.to_vector<float>();
  };
  EXPECT_EQ(gradient(0), gradient(1));
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace saccade
