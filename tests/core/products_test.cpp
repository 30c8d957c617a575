// Tests the tuned products, convolutions and poolings on shapes of a real step: against the generic loops in
// f64, equal bits from run to run (for packed_gemm also with any threads and neighbours), and the bounded
// cache of primitives.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <span>

#include "core/kernels/activation/activation.h"
#include "core/kernels/conv2d/conv2d.h"
#include "core/kernels/conv2d/packed_conv_cpu.h"
#include "core/kernels/linear/linear.h"
#include "core/kernels/matmul/matmul.h"
#include "core/kernels/matmul/packed_gemm_cpu.h"
#include "core/runtime/cpu/primitive_cache.h"
#include "core/runtime/parallel.h"
#include "core/tensor/philox.h"
#include "tests/compare_tensors.h"

namespace saccade {
namespace {

using Tensors = std::vector<Tensor>;

Tensor random_tensor(const Shape& shape, DType dtype, uint64_t seed) {
  Rng rng(seed);
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.uniform(-1, 1));
  return t.to(dtype);
}

// f32: rounding of sums of up to 10^4 products. bf16: the inputs are equal in both, so only the result is
// rounded.
double tolerance(const Tensor& result) { return result.dtype() == DType::kBF16 ? 3e-2 : 2e-4; }

struct LinearShape {
  int64_t rows, n, k;
};

class LinearProducts : public testing::TestWithParam<std::tuple<LinearShape, DType>> {};

TEST_P(LinearProducts, EqualTheLoopsAndThemselves) {
  auto [s, dtype] = GetParam();
  Tensor x = random_tensor({s.rows, s.k}, dtype, 1), w = random_tensor({s.n, s.k}, dtype, 2);
  Tensor dy = random_tensor({s.rows, s.n}, dtype, 3), bias = random_tensor({s.n}, DType::kF32, 4);
  auto run = [&](const Tensor& a, const Tensor& b, const Tensor& g, const Tensor& c) {
    DType sums = a.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
    Tensors out{Tensor::empty({s.rows, s.n}, a.dtype()), Tensor::empty({s.rows, s.k}, a.dtype()),
                Tensor::empty({s.n, s.k}, sums)};
    kernels::linear_forward(a, b, c, Activation::kRelu, out[0]);
    kernels::linear_backward_data(g, b, out[1]);
    kernels::linear_backward_weight(g, a, out[2]);
    return out;
  };
  auto f64 = [](const Tensor& t) { return t.to(DType::kF64); };
  Tensors got = run(x, w, dy, bias), want = run(f64(x), f64(w), f64(dy), f64(bias));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(error_of(got[i], want[i]), tolerance(got[i])) << i;
  for (int k = 0; k < 3; ++k) {
    Tensors again = run(x, w, dy, bias);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], again[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearProducts,
                         testing::Combine(testing::Values(LinearShape{5440, 128, 128},
                                                          LinearShape{700, 512, 128}, LinearShape{513, 31, 7},
                                                          LinearShape{200, 4, 128}, LinearShape{1, 1, 1}),
                                          testing::Values(DType::kF32, DType::kBF16)));

struct ConvShape {
  Shape x;
  int64_t out, window;
  kernels::ConvParams p;
};

class Convolutions : public testing::TestWithParam<std::tuple<ConvShape, DType>> {};

TEST_P(Convolutions, EqualTheLoopsAndThemselves) {
  auto [s, dtype] = GetParam();
  int64_t oh = kernels::conv_output_size(s.x[1], s.window, s.p),
          ow = kernels::conv_output_size(s.x[2], s.window, s.p);
  Shape w_shape{s.out, s.x[3] / s.p.groups, s.window, s.window}, y_shape{s.x[0], oh, ow, s.out};
  Tensor x = random_tensor(s.x, dtype, 1), w = random_tensor(w_shape, dtype, 2),
         dy = random_tensor(y_shape, dtype, 3);
  auto run = [&, &p = s.p](const Tensor& a, const Tensor& b, const Tensor& g) {
    Tensors out{Tensor::empty(y_shape, a.dtype()), Tensor::empty(a.shape(), a.dtype()),
                Tensor::empty(w_shape, a.dtype() == DType::kF64 ? DType::kF64 : DType::kF32)};
    kernels::conv2d_forward(a, b, {}, p, Activation::kNone, out[0]);
    kernels::conv2d_backward_data(g, b, p, out[1]);
    kernels::conv2d_backward_weight(g, a, p, out[2]);
    return out;
  };
  Tensors got = run(x, w, dy), want = run(x.to(DType::kF64), w.to(DType::kF64), dy.to(DType::kF64));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(error_of(got[i], want[i]), tolerance(got[i])) << i;
  for (int k = 0; k < 3; ++k) {
    Tensors again = run(x, w, dy);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], again[i])) << i;
  }
}

// The convolutions for processors without AVX-512, which run on all processors, are near the loops, too, and
// have the same bits for any number of threads.
TEST_P(Convolutions, PackedOnesEqualTheLoops) {
  auto [s, dtype] = GetParam();
  if (s.p.groups != 1) return;  // oneDNN computes these on all machines
  const int threads = thread_count();
  parallel_debug().ignore_grain = true;
  const Shape w_shape{s.out, s.x[3], s.window, s.window};
  const Shape y_shape{s.x[0], kernels::conv_output_size(s.x[1], s.window, s.p),
                      kernels::conv_output_size(s.x[2], s.window, s.p), s.out};
  const Tensor x = random_tensor(s.x, dtype, 1), w = random_tensor(w_shape, dtype, 2),
               dy = random_tensor(y_shape, dtype, 3), bias = random_tensor({s.out}, DType::kF32, 4);
  auto results = [&](DType type) {
    return Tensors{Tensor::empty(y_shape, type),
                   Tensor::empty(w_shape, type == DType::kF64 ? type : DType::kF32),
                   Tensor::zeros(s.x, type)};
  };
  auto run = [&, &p = s.p](int count) {
    set_thread_count(count);
    Tensors out = results(dtype);
    cpu::packed_conv_forward(x, w, bias, p, Activation::kRelu, out[0]);
    cpu::packed_conv_backward_weight(dy, x, p, out[1]);
    if (p.stride == 1) cpu::packed_conv_backward_data(dy, w, p, out[2]);
    return out;
  };
  const Tensors got = run(1), again = run(3);
  set_thread_count(threads);
  parallel_debug().ignore_grain = false;
  Tensors want = results(DType::kF64);
  const auto wide = [](const Tensor& t) { return t.to(DType::kF64); };
  kernels::conv2d_forward(wide(x), wide(w), wide(bias), s.p, Activation::kRelu, want[0]);
  kernels::conv2d_backward_weight(wide(dy), wide(x), s.p, want[1]);
  if (s.p.stride == 1) kernels::conv2d_backward_data(wide(dy), wide(w), s.p, want[2]);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LT(error_of(got[i], want[i]), tolerance(got[i])) << i;
    EXPECT_TRUE(same_bits(got[i], again[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Convolutions,
                         testing::Combine(testing::Values(ConvShape{{2, 64, 64, 3}, 32, 7, {2, 3, 1, 1}},
                                                          ConvShape{{4, 16, 16, 32}, 64, 3, {2, 1, 1, 1}},
                                                          ConvShape{{4, 16, 16, 32}, 64, 1, {2, 0, 1, 1}},
                                                          ConvShape{{2, 9, 11, 64}, 64, 3, {1, 1, 1, 1}},
                                                          ConvShape{{1, 8, 8, 128}, 256, 3, {1, 2, 2, 1}},
                                                          ConvShape{{2, 9, 7, 48}, 48, 3, {1, 1, 1, 48}},
                                                          ConvShape{{2, 5, 6, 31}, 7, 3, {1, 1, 1, 1}},
                                                          ConvShape{{3, 8, 8, 64}, 128, 1, {1, 0, 1, 1}}),
                                          testing::Values(DType::kF32, DType::kBF16)));

TEST(Matmul, TransposedAndBroadcastViews) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Tensor a = random_tensor({3, 40, 33}, dtype, 1), b = random_tensor({3, 33, 50}, dtype, 2);
    auto check = [](const Tensor& p, const Tensor& q) {
      Tensor c = Tensor::empty({3, p.dim(1), q.dim(2)}, p.dtype());
      Tensor want = Tensor::empty(c.shape(), DType::kF64);
      kernels::matmul(p, q, c);
      kernels::matmul(p.to(DType::kF64), q.to(DType::kF64), want);
      EXPECT_LT(error_of(c, want), tolerance(c));
    };
    check(a, b);
    check(b.transpose(1, 2), a.transpose(1, 2));
    check(a, b.slice(0, 1, 2));
    check(a.slice(0, 1, 2), b);
    check(a.slice(1, 3, 30), b.slice(2, 5, 22));
    check(a.slice(2, 2, 12).expand({3, 40, 10}), b.slice(1, 0, 10));
  }
}

// packed_gemm is for processors without AVX-512 and runs on all.

// If `turned`, rows and columns are stored in the other order.
Tensor random_batch(int64_t batch, int64_t rows, int64_t columns, DType dtype, uint64_t seed, bool turned) {
  Tensor t = random_tensor(turned ? Shape{batch, columns, rows} : Shape{batch, rows, columns}, dtype, seed);
  return turned ? t.transpose(1, 2) : t;
}

struct ProductSize {
  int64_t batch, m, n, k;
};

class PackedGemm : public testing::TestWithParam<ProductSize> {
 protected:
  ~PackedGemm() override { parallel_debug().ignore_grain = false; }
};

TEST_P(PackedGemm, EqualsSumsInF64) {
  const auto [batch, m, n, k] = GetParam();
  parallel_debug().ignore_grain = true;
  for (int form = 0; form < 32; ++form) {
    const DType dtype = form & 4 ? DType::kBF16 : DType::kF32, out = form & 8 ? DType::kF32 : dtype;
    const bool epilogue = form & 16;
    const Tensor a = random_batch(batch, m, k, dtype, 1, form & 1),
                 b = random_batch(1, k, n, dtype, 2, form & 2);
    const Tensor bias = random_batch(1, 1, n, DType::kF32, 3, false).reshape({n});
    Tensor c = Tensor::full({batch, m, n}, NAN).to(out);
    cpu::packed_gemm(a, b, c, epilogue ? bias : Tensor(), epilogue ? Activation::kRelu : Activation::kNone);
    const auto x = a.contiguous().to_vector<double>(), y = b.contiguous().to_vector<double>();
    const auto z = c.to_vector<double>(), add = bias.to_vector<double>();
    const auto at = [](int64_t i) { return static_cast<size_t>(i); };
    for (int64_t row = 0; row < batch * m; ++row)
      for (int64_t j = 0; j < n; ++j) {
        double sum = epilogue ? add[at(j)] : 0, size = std::abs(sum);
        for (int64_t i = 0; i < k; ++i) {
          const double term = x[at(row * k + i)] * y[at(i * n + j)];
          sum += term;
          size += std::abs(term);
        }
        if (epilogue) sum = std::max(sum, 0.0);
        // Each term adds an f32 rounding (2^-24 of the sum so far); for bf16 the result is rounded once more.
        const double bound = std::ldexp(size, -24) * static_cast<double>(k + 1) +
                             (out == DType::kBF16 ? std::ldexp(std::abs(sum), -8) : 0);
        ASSERT_NEAR(z[at(row * n + j)], sum, bound) << "form " << form << ", row " << row << ", column " << j;
      }
  }
}

TEST_P(PackedGemm, HasTheSameBitsForAnyThreadsAndNeighbours) {
  const auto [batch, m, n, k] = GetParam();
  parallel_debug().ignore_grain = true;
  const int threads = thread_count();
  for (int form = 0; form < 8; ++form) {
    const DType dtype = form & 4 ? DType::kBF16 : DType::kF32;
    const Tensor a = random_batch(batch, m, k, dtype, 1, form & 1),
                 b = random_batch(1, k, n, dtype, 2, form & 2);
    Tensor all = Tensor::empty({batch, m, n}, dtype), again = all.empty_like();
    set_thread_count(1);
    cpu::packed_gemm(a, b, all);
    for (int t = 2; t <= 3; ++t) {
      set_thread_count(t);
      cpu::packed_gemm(a, b, again);
      EXPECT_TRUE(same_bits(all, again)) << "form " << form << ", " << t << " threads";
    }
    for (int64_t row : {int64_t{0}, m / 2, m - 1}) {  // alone
      Tensor one = Tensor::empty({1, 1, n}, dtype);
      cpu::packed_gemm(a.slice(0, batch - 1, batch).slice(1, row, row + 1), b, one);
      EXPECT_TRUE(same_bits(all.slice(0, batch - 1, batch).slice(1, row, row + 1).contiguous(), one))
          << "form " << form << ", row " << row;
    }
  }
  set_thread_count(threads);
}

// The sizes have one and several tiles, panels, blocks and parts of K, with remainders.
INSTANTIATE_TEST_SUITE_P(Sizes, PackedGemm,
                         testing::Values(ProductSize{1, 1, 1, 1}, ProductSize{2, 5, 3, 7},
                                         ProductSize{1, 6, 16, 256}, ProductSize{3, 13, 70, 33},
                                         ProductSize{1, 110, 17, 520}, ProductSize{1, 25, 260, 300},
                                         ProductSize{1, 800, 5, 257}));

TEST(PrimitiveCache, StaysBounded) {
  size_t capacity = onednn::cache_stats().capacity;
  EXPECT_GE(capacity, 64u);
  onednn::set_cache_capacity(4);
  Tensor w = random_tensor({8, 1, 3, 3}, DType::kF32, 1);
  auto run = [&](int64_t rows) {  // which all machines give to oneDNN
    Tensor x = random_tensor({1, rows, 3, 8}, DType::kF32, 2), y = Tensor::empty({1, rows, 3, 8});
    kernels::conv2d_forward(x, w, {}, {.padding = 1, .groups = 8}, Activation::kNone, y);
  };
  for (int64_t rows = 1; rows <= 20; ++rows) run(rows);
  EXPECT_EQ(onednn::cache_stats().size, 4u);
  auto before = onednn::cache_stats();
  for (int64_t rows = 17; rows <= 20; ++rows) run(rows);  // the last four are still there
  EXPECT_EQ(onednn::cache_stats().misses, before.misses);
  EXPECT_EQ(onednn::cache_stats().hits, before.hits + 4);
  run(1);
  EXPECT_EQ(onednn::cache_stats().misses, before.misses + 1);
  EXPECT_THROW(onednn::set_cache_capacity(0), Error);
  onednn::set_cache_capacity(capacity);
}

TEST(Activations, GeluInF32IsTheErfForm) {
  Tensor z = random_tensor({1000, 7}, DType::kF32, 5);
  for (int64_t i = 0; i < z.numel(); ++i) z.data<float>()[i] *= 8;
  Tensor y = z.empty_like(), slope = z.empty_like(), dz = Tensor::full(z.shape(), 1), none;
  kernels::activation_forward(Activation::kGelu, z, y, slope);
  kernels::activation_backward(Activation::kGelu, dz, slope, dz, none);
  for (int64_t i = 0; i < z.numel(); ++i) {
    double v = z.data<float>()[i], cdf = 0.5 * std::erfc(-v * std::sqrt(0.5));
    double pdf = std::exp(-0.5 * v * v) / std::sqrt(2 * 3.14159265358979323846);
    ASSERT_NEAR(y.data<float>()[i], v * cdf, 2e-6) << v;
    ASSERT_NEAR(dz.data<float>()[i], cdf + v * pdf, 2e-6) << v;
  }
}

// The factors are whole numbers, so sums need no rounding: the threads' sums must add up to one thread's.
TEST(Products, WeightGradientsAddUpForAnyNumberOfThreads) {
  const int before = thread_count();
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (auto [N, channels, window] : {std::array{5, 3, 7}, {2, 16, 3}, {1, 8, 3}}) {
      auto whole = [&](const Shape& shape, uint64_t seed) {
        Tensor t = random_tensor(shape, DType::kF32, seed);
        for (float& v : std::span(t.data<float>(), static_cast<size_t>(t.numel()))) v = std::round(3 * v);
        return t.to(dtype);
      };
      const kernels::ConvParams p{.padding = window / 2};
      const Tensor x = whole({N, 14, 15, channels}, 1), dy = whole({N, 14, 15, 24}, 2);
      const Tensor rows = x.reshape({-1, channels}), drows = dy.reshape({-1, 24});
      std::vector<Tensor> convolution, linear;
      for (int threads : {1, 2, 3, 4}) {
        set_thread_count(threads);
        convolution.push_back(Tensor::full({24, channels, window, window}, NAN));
        kernels::conv2d_backward_weight(dy, x, p, convolution.back());
        linear.push_back(Tensor::full({24, channels}, NAN));
        kernels::linear_backward_weight(drows, rows, linear.back());
        EXPECT_TRUE(same_bits(convolution.back(), convolution[0]) && same_bits(linear.back(), linear[0]))
            << name_of(dtype) << ", " << N << " samples, " << threads << " threads";
      }
      set_thread_count(before);
    }
}

}  // namespace
}  // namespace saccade
