// Tests products on the emulated GPU with the stand-in for cuBLASLt: which ones it gets, in which precision,
// and what is kept of them. The op table checks that the results are right.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/ops.h"
#include "core/kernels/linear/linear.h"
#include "core/kernels/matmul/matmul.h"
#include "core/runtime/cuda/libraries/cublaslt.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"
#include "tests/cuda_emulator/cublasLt.h"

namespace saccade {
namespace {

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (float& v : values) v = static_cast<float>(rng.uniform(-1, 1));
  return Tensor::from(shape, values, Device::kCuda);
}

std::vector<float> product_of(const Tensor& a, const Tensor& b, DType out = DType::kF32) {
  Tensor c = Tensor::empty({std::max(a.dim(0), b.dim(0)), a.dim(1), b.dim(2)}, out, Device::kCuda);
  kernels::matmul(a, b, c);
  return c.to_vector<float>();
}

std::vector<float> generic_product_of(const Tensor& a, const Tensor& b) {
  Tensor c = Tensor::empty({std::max(a.dim(0), b.dim(0)), a.dim(1), b.dim(2)}, DType::kF32, Device::kCuda);
  kernels::matmul.generic(a, b, c);
  return c.to_vector<float>();
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

constexpr double kF32 = 1e-5;  // rounding of sums of up to 100 products of numbers below 1

// Returns how many products the library got.
uint64_t products_of(const std::function<void()>& action) {
  uint64_t before = emulator::products_run();
  action();
  return emulator::products_run() - before;
}

TEST(CublasLt, RunsViewsWithoutCopies) {
  Tensor a = random_tensor({3, 20, 17}, 1), b = random_tensor({3, 17, 13}, 2);
  auto check = [](const Tensor& p, const Tensor& q) {
    EXPECT_EQ(products_of([&] { expect_near(product_of(p, q), generic_product_of(p, q), kF32); }), 1u);
    EXPECT_EQ(emulator::fault(), "");
  };
  check(a, b);
  check(b.transpose(1, 2), a.transpose(1, 2));
  check(a, b.slice(0, 1, 2));
  check(a.slice(0, 1, 2), b);
  check(a.slice(1, 3, 9), b.slice(2, 5, 12));  // addresses that are multiples of 4 only
  check(a.slice(2, 2, 3), b.slice(1, 4, 5));   // one column, one row
  check(a.slice(2, 1, 2).expand({3, 20, 6}), b.slice(1, 0, 6));
  // The same shape at addresses of falling alignment: an algorithm for the first may not read the others.
  Tensor wide = random_tensor({1, 40}, 3);
  for (int64_t first : {0, 4, 2, 1})
    check(wide.slice(1, first, first + 32).reshape({1, 4, 8}), b.slice(1, 0, 8));
}

TEST(CublasLt, TakesAnyNumberOfProducts) {
  Tensor a = random_tensor({65537, 1, 1}, 1), b = random_tensor({65537, 1, 1}, 2);
  EXPECT_EQ(products_of([&] { expect_near(product_of(a, b), generic_product_of(a, b), kF32); }), 2u);
}

TEST(CublasLt, RefusesSizesThatTheLibraryCannotCount) {
  int64_t rows = std::numeric_limits<int32_t>::max() + int64_t{1};
  Tensor t = Tensor::empty({1}, DType::kF32, Device::kCuda);
  cuda::Matrices tall{t.raw(), DType::kF32, rows, 1, false, 1}, one{t.raw(), DType::kF32, 1, 1, false, 1};
  EXPECT_FALSE(cuda::product(1, tall, one, tall));
}

// The stand-in must find these faults, so that the other tests mean something.
TEST(CublasLt, FindsWhatIsWrongWithAProduct) {
  Tensor a = random_tensor({4, 6}, 1), b = random_tensor({6, 5}, 2),
         c = Tensor::empty({4, 5}, DType::kF32, Device::kCuda);
  auto matrices = [](const Tensor& t) {
    return cuda::Matrices{t.raw(), t.dtype(), t.dim(0), t.dim(1), false, t.dim(1)};
  };
  auto report = [&](const cuda::Matrices& left, const cuda::Matrices& right, const cuda::Matrices& out) {
    std::string text;
    try {
      cuda::product(1, left, right, out);
    } catch (const Error& e) {
      text = e.what();
    }
    emulator::take_fault();
    return text;
  };
  auto expect_part = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  cuda::Matrices m = matrices(a), n = matrices(b), r = matrices(c), wrong = m;
  EXPECT_EQ(report(m, n, r), "");
  wrong.leading = 5;
  expect_part(report(wrong, n, r), "an invalid value");
  wrong.leading = 7;
  expect_part(report(wrong, n, r), "outside an allocation");
  wrong = r;
  wrong.leading = 6;
  expect_part(report(m, n, wrong), "outside an allocation");
  wrong = r;
  wrong.rows = 3;
  expect_part(report(m, n, wrong), "an invalid value");
#ifdef SACCADE_EMULATOR_HOOKS
  Tensor unwritten = a.empty_like();
  expect_part(report(matrices(unwritten), n, r), "never written");
#endif
}

// Factors have 10 bits, so each product is off by up to 2^-10 of itself.
TEST(CublasLt, Tf32IsNearF32AndOnlyWhenAsked) {
  Tensor a = random_tensor({1, 9, 100}, 1), b = random_tensor({1, 100, 8}, 2);
  std::vector<float> exact = product_of(a, b);
  execution().math = MathMode::kTf32;
  std::vector<float> fast = product_of(a, b);
  execution().math = MathMode::kExact;
  EXPECT_EQ(product_of(a, b), exact);
  expect_near(exact, generic_product_of(a, b), kF32);
  expect_near(fast, exact, 100 * std::ldexp(1.0, -10));
  double largest = 0;
  for (size_t i = 0; i < exact.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(fast[i]) - exact[i]));
  EXPECT_GT(largest, kF32);
}

TEST(CublasLt, WhatItHasNoAlgorithmForRunsElsewhere) {
  Tensor x = random_tensor({11, 7}, 1), w = random_tensor({5, 7}, 2), bias = random_tensor({5}, 3);
  auto forward = [&](Activation act) {
    NoGrad no_grad;
    return linear(Var(x), Var(w), Var(bias), act).value().to_vector<float>();
  };
  testing::internal::CaptureStderr();
  for (Activation act : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
    cuda::set_product_plan_capacity(1);  // forgets the plan of the turn before
    std::vector<float> with, without;
    EXPECT_EQ(products_of([&] { with = forward(act); }), 1u);
    cuda::set_product_plan_capacity(1);
    product_of(x.unsqueeze(0), w.transpose(0, 1).unsqueeze(0));
    emulator::refuse_products(true);
    EXPECT_EQ(products_of([&] { without = forward(act); }), 0u);
    emulator::refuse_products(false);
    expect_near(with, without, kF32);
    product_of(x.unsqueeze(0), w.transpose(0, 1).unsqueeze(0));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),  // once
            "saccade: no library supports this, so a slow kernel is used: "
            "product of 1 matrices [11, 7] by [7, 5] in f32\n");
  cuda::set_product_plan_capacity(512);
}

TEST(CublasLt, ReadsABiasAtAnyAddress) {
  Tensor x = random_tensor({11, 7}, 1), w = random_tensor({5, 7}, 2), wide = random_tensor({9}, 3);
  for (int64_t first = 0; first < 4; ++first) {
    Tensor bias = wide.slice(0, first, first + 5), y = Tensor::empty({11, 5}, DType::kF32, Device::kCuda);
    Tensor want = y.empty_like();
    EXPECT_EQ(products_of([&] { kernels::linear_forward(x, w, bias, Activation::kRelu, y); }), 1u) << first;
    kernels::linear_forward.generic(x, w, bias, Activation::kRelu, want);
    expect_near(y.to_vector<float>(), want.to_vector<float>(), kF32);
  }
}

// Sizes of a class share an algorithm, whichever of them comes first; a sum that is cut in two needs an even
// number of terms.
TEST(CublasLt, ThousandsOfRowsShareAnAlgorithm) {
  auto heuristics_of = [](int64_t rows) {
    const Tensor x = random_tensor({rows, 3}, 1), w = random_tensor({2, 3}, 2),
                 dz = random_tensor({rows, 2}, 3);
    Tensor y = Tensor::empty({rows, 2}, DType::kF32, Device::kCuda), dw = w.empty_like();
    const uint64_t before = emulator::product_heuristics();
    kernels::linear_forward(x, w, {}, Activation::kNone, y);
    kernels::linear_backward_weight(dz, x, dw);
    Tensor want_y = y.empty_like(), want_dw = dw.empty_like();
    kernels::linear_forward.generic(x, w, {}, Activation::kNone, want_y);
    kernels::linear_backward_weight.generic(dz, x, want_dw);
    expect_near(y.to_vector<float>(), want_y.to_vector<float>(), kF32);
    expect_near(dw.to_vector<float>(), want_dw.to_vector<float>(), 1e-3);
    return emulator::product_heuristics() - before;
  };
  EXPECT_EQ(heuristics_of(4200), 2u);  // for 4,608
  EXPECT_EQ(heuristics_of(4500), 0u);
  EXPECT_EQ(heuristics_of(4501), 1u);  // of the weights' gradient
  EXPECT_EQ(heuristics_of(4700), 2u);  // for 5,120
  EXPECT_EQ(heuristics_of(4200), 0u);
  EXPECT_EQ(heuristics_of(40), 2u);
  EXPECT_EQ(heuristics_of(42), 2u);
}

TEST(CublasLt, KeepsABoundedNumberOfPlans) {
  const size_t capacity = cuda::product_plans().capacity;
  EXPECT_GE(capacity, 256u);  // the shapes of a training step
  cuda::set_product_plan_capacity(4);
  Tensor b = random_tensor({1, 8, 8}, 1);
  for (int64_t rows = 1; rows <= 20; ++rows) product_of(random_tensor({1, rows, 8}, 2), b);
  EXPECT_EQ(cuda::product_plans().size, 4u);
  CacheStats before = cuda::product_plans();
  for (int64_t rows = 17; rows <= 20; ++rows) product_of(random_tensor({1, rows, 8}, 2), b);
  EXPECT_EQ(cuda::product_plans().misses, before.misses);
  cuda::set_product_plan_capacity(capacity);
}

}  // namespace
}  // namespace saccade
