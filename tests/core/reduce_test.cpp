#include "core/kernels/reduce/reduce.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>

#include "core/runtime/parallel.h"
#include "core/tensor/philox.h"

namespace saccade {
namespace {

Tensor random(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.uniform(-1, 1));
  return t;
}

// A tree of sums errs by about log2(n) / 2 roundings of the running magnitude: 1e-6 of sqrt(n) is ample.
TEST(Reduce, LongSumsKeepTheirDigits) {
  Tensor x = random({1000003}, 1), y = Tensor::empty({});
  double exact = 0;
  for (float v : x.to_vector<float>()) exact += v;
  kernels::sum_to_shape(x, 1, y);
  EXPECT_NEAR(y.item(), exact, 1e-3);

  Tensor ones = Tensor::full({3000017}, 0.1);
  kernels::sum_to_shape(ones, 1, y);
  // Equal terms round the same way every time, at most 32 in a row: 32 * 2^-25 relative.
  EXPECT_NEAR(y.item(), 3000017 * static_cast<double>(0.1f), 0.29);
}

TEST(Reduce, ColumnsOfATallMatrix) {
  Tensor x = random({40003, 70}, 2), y = Tensor::empty({70});
  kernels::sum_to_shape(x, 0.5, y);
  std::vector<double> exact(70);
  auto v = x.to_vector<float>();
  for (size_t i = 0; i < v.size(); ++i) exact[i % 70] += 0.5 * v[i];
  auto got = y.to_vector<double>();
  for (size_t c = 0; c < 70; ++c) EXPECT_NEAR(got[c], exact[c], 1e-4);
}

// Kept and summed axes that alternate: each pair of elements is added in f32, also for bf16.
TEST(Reduce, AlternatingAxes) {
  const Shape sizes{3, 5, 2, 7, 2, 19}, kept{3, 1, 2, 1, 2, 1};
  for (const Shape& to : {Shape{3, 5, 1, 7, 1, 19}, Shape{1, 5, 1, 7, 1, 19}, kept}) {
    const Tensor x = random(sizes, 4);
    std::vector<double> exact(static_cast<size_t>(to.numel()));
    const auto values = x.to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      int64_t rest = static_cast<int64_t>(i), at = 0, step = 1;
      for (int a = 5; a >= 0; --a) {
        if (to[a] > 1) at += rest % sizes[a] * step;
        rest /= sizes[a];
        step *= to[a];
      }
      exact[static_cast<size_t>(at)] += 0.5 * values[i];
    }
    Tensor y = Tensor::empty(to);
    kernels::sum_to_shape(x, 0.5, y);
    const auto got = y.to_vector<double>();
    for (size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(got[i], exact[i], 2e-5) << i;

    // The same sums of rounded elements, rounded once.
    const Tensor rounded = x.to(DType::kBF16);
    Tensor sums = Tensor::empty(to), half = Tensor::empty(to, DType::kBF16);
    kernels::sum_to_shape(rounded.to(DType::kF32), 0.5, sums);
    kernels::sum_to_shape(rounded, 0.5, half);
    EXPECT_EQ(half.to_vector<double>(), sums.to(DType::kBF16).to_vector<double>());
    kernels::sum_to_shape(rounded, 0.5, y);
    EXPECT_EQ(y.to_vector<double>(), sums.to_vector<double>());
  }
}

TEST(Reduce, BitsDoNotDependOnThreads) {
  Tensor tall = random({20001, 67}, 3), columns = Tensor::empty({67}), total = Tensor::empty({});
  int threads = omp_get_max_threads();
  std::vector<double> first;
  for (int n : {1, 2, 3, 5}) {
    omp_set_num_threads(n);
    kernels::sum_to_shape(tall, 1, columns);
    kernels::sum_to_shape(tall, 1, total);
    std::vector<double> all = columns.to_vector<double>();
    all.push_back(total.item());
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << n << " threads";
  }
  omp_set_num_threads(threads);
}

TEST(Reduce, CountsNonfinite) {
  Tensor x = random({12345}, 4), out = Tensor::empty({}, DType::kF64);
  kernels::count_nonfinite(x, out);
  EXPECT_EQ(out.item(), 0);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    Tensor y = x.to(dtype).clone();
    y.slice(0, 5000, 5001).fill(std::nan(""));
    y.slice(0, 12344, 12345).fill(INFINITY);
    y.slice(0, 0, 1).fill(-INFINITY);
    kernels::count_nonfinite(y, out);
    EXPECT_EQ(out.item(), 3) << name_of(dtype);
  }
  kernels::count_nonfinite(Tensor::empty({0}), out);
  EXPECT_EQ(out.item(), 0);
}

}  // namespace
}  // namespace saccade
