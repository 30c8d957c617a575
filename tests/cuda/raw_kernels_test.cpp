// Kernels that no row of the op table reaches, on the emulated GPU against the CPU: the tuned ones and the
// generic ones, which are their reference. Products of a few f32 operations agree within some roundings.
#include <gtest/gtest.h>

#include <cmath>

#include "core/kernels/adamw.h"
#include "core/kernels/match_cost.h"
#include "core/kernels/ms_deform_attn.h"
#include "core/kernels/normalize_image.h"
#include "core/kernels/reduce.h"
#include "core/kernels/softmax.h"
#include "core/philox.h"

namespace saccade {
namespace {

constexpr double kRoundings = 1e-6;

Tensor uniform(Rng& rng, const Shape& shape, double low = -1, double high = 1) {
  Tensor t = Tensor::empty(shape, DType::kF32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.uniform(low, high));
  return t;
}

void expect_near(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  auto a = got.to_vector<double>(), b = want.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], kRoundings * (1 + std::abs(b[i]))) << "element " << i;
}

// Runs f(device), which returns its results, on the CPU and on the GPU with tuned and with generic kernels.
template <class F>
void compare(F&& f) {
  std::vector<Tensor> want = f(Device::kCpu);
  for (bool generic : {false, true}) {
    prefer_generic_kernels = generic;
    std::vector<Tensor> got = f(Device::kCuda);
    prefer_generic_kernels = false;
    for (size_t i = 0; i < want.size(); ++i) {
      SCOPED_TRACE(testing::Message() << (generic ? "generic" : "tuned") << ", result " << i);
      expect_near(got[i].to(Device::kCpu), want[i]);
    }
  }
}

// Three tensors of a ragged, a long and a single-element size; two steps.
std::vector<Tensor> optimize(Device device, bool adamw, double momentum) {
  Rng rng(5);
  std::vector<kernels::OptimizerItem> items;
  std::vector<Tensor> grads, averages, values;
  for (int64_t n : {77, 9001, 1}) {
    kernels::OptimizerItem item;
    item.value = uniform(rng, {n}).to(device);
    item.grad = uniform(rng, {n}).to(device);
    if (adamw || momentum > 0) item.exp_avg = uniform(rng, {n}).to(device);
    if (adamw) item.exp_avg_sq = uniform(rng, {n}, 0, 1).to(device);
    item.learning_rate = 1e-2;
    item.weight_decay = 0.1;
    item.step = 2;
    grads.push_back(item.grad);
    values.push_back(item.value);
    averages.push_back(uniform(rng, {n}).to(device));
    items.push_back(item);
  }
  Tensor norm = Tensor::empty({1}, DType::kF64, device);
  for (int step = 0; step < 2; ++step) {
    kernels::gradient_norm(norm, grads);
    if (adamw)
      kernels::adamw_step(norm, 0.1, items, {});
    else
      kernels::sgd_step(norm, 0.1, items, momentum);
    kernels::ema_update(norm, averages, values, 0.25);
  }
  std::vector<Tensor> out{norm};
  for (const auto& item : items) {
    out.push_back(item.value);
    if (item.exp_avg.defined()) out.push_back(item.exp_avg);
  }
  out.insert(out.end(), averages.begin(), averages.end());
  return out;
}

TEST(RawKernels, AdamW) {
  compare([](Device device) { return optimize(device, true, 0); });
}

TEST(RawKernels, Sgd) {
  for (double momentum : {0.0, 0.9})
    compare([&](Device device) { return optimize(device, false, momentum); });
}

TEST(RawKernels, MatchCost) {
  compare([](Device device) {
    Rng rng(6);
    Tensor scores = uniform(rng, {2, 70, 5}, -3, 3), boxes = uniform(rng, {2, 70, 4}, 0.1, 0.5),
           truth = uniform(rng, {3, 4}, 0.1, 0.5);
    Tensor images = Tensor::from(Shape{3}, std::vector<int64_t>{0, 1, 1}),
           labels = Tensor::from(Shape{3}, std::vector<int64_t>{4, 0, 2});
    std::vector<Tensor> out;
    for (bool probabilities : {false, true}) {
      Tensor cost = Tensor::empty({3, 70}, DType::kF32, device);
      kernels::match_cost(scores.to(device), boxes.to(device), images.to(device), labels.to(device),
                          truth.to(device), {2, 5, 2, 0.25, 2, probabilities}, cost);
      out.push_back(cost);
    }
    return out;
  });
}

TEST(RawKernels, DeformableLocations) {
  compare([](Device device) {
    Rng rng(7);
    kernels::MsDeformLevels levels;
    levels.push_back(4, 5);
    levels.push_back(2, 3);
    std::vector<Tensor> out;
    for (int64_t r : {2, 4}) {
      Tensor locations = Tensor::empty({1, 3, 2, 2, 4, 2}, DType::kF32, device),
             weights = Tensor::empty({1, 3, 2, 2, 4}, DType::kF32, device);
      kernels::ms_deform_locations(uniform(rng, {1, 3, 2, r}, 0, 1).to(device),
                                   uniform(rng, {1, 3, 2, 2, 4, 2}).to(device),
                                   uniform(rng, {1, 3, 2, 8}).to(device), levels, locations, weights);
      out.insert(out.end(), {locations, weights});
    }
    return out;
  });
}

TEST(RawKernels, NormalizeImage) {
  compare([](Device device) {
    std::vector<Tensor> out;
    for (int64_t width : {7, 8}) {  // with and without a rest of a pack
      Tensor images = Tensor::empty({2, 5, width, 3}, DType::kU8),
             mask = Tensor::empty({2, 5, width}, DType::kBool);
      for (int64_t i = 0; i < images.numel(); ++i) images.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37);
      for (int64_t i = 0; i < mask.numel(); ++i) mask.data<bool>()[i] = i % width > 4;
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        Tensor y = Tensor::empty(images.shape(), dtype, device);
        kernels::normalize_image(images.to(device), mask.to(device), {}, y);
        out.push_back(y);
      }
    }
    return out;
  });
}

TEST(RawKernels, Counts) {
  compare([](Device device) {
    Rng rng(8);
    Tensor x = uniform(rng, {3000});
    x.data<float>()[17] = NAN;
    x.data<float>()[2999] = -INFINITY;
    Tensor count = Tensor::empty({1}, DType::kF64, device), squares = Tensor::empty({1}, DType::kF64, device);
    kernels::count_nonfinite(x.to(device), count);
    kernels::sum_squares(uniform(rng, {5000}).to(device), squares);
    return std::vector<Tensor>{count, squares};
  });
}

// Rows that begin with minus infinities, hold nothing else, or hold a NaN.
TEST(RawKernels, SoftmaxOfSpecialNumbers) {
  constexpr double kNan = -7;  // stands for it, so that results can be compared
  for (int64_t n : {4, 70, 260, 600, 601}) {
    SCOPED_TRACE(n);
    compare([&](Device device) {
      Rng rng(9);
      Tensor x = uniform(rng, {4, n});
      for (int64_t i = 0; i < n; ++i) {
        if (i < n - 3) x.data<float>()[i] = -INFINITY;
        x.data<float>()[n + i] = -INFINITY;
      }
      x.data<float>()[3 * n - 1] = NAN;
      Tensor y = x.to(device).empty_like();
      kernels::softmax(x.to(device), y);
      auto values = y.to_vector<double>();
      for (double& value : values) value = std::isnan(value) ? kNan : value;
      EXPECT_LT(std::abs(values[0]), 1e-40);
      EXPECT_EQ(values[static_cast<size_t>(n)], kNan);
      EXPECT_EQ(values[static_cast<size_t>(2 * n)], kNan);
      return std::vector<Tensor>{Tensor::from({4, n}, values)};
    });
  }
}

}  // namespace
}  // namespace saccade
