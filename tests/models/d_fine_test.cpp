// Tests D-FINE's distributions of sides: properties that follow from their formulas. Whole models:
// tests/train/checkpoints/d_fine_transformers_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/engine.h"
#include "core/tensor/philox.h"
#include "models/d_fine/distribution.h"
#include "models/detection/loss_term.h"

namespace saccade {
namespace {

constexpr int64_t kBins = 32;

BinScale bins_of(float scale) {
  return make_bin_scale(Var(Tensor::from<float>({1}, {0.5F})), Var(Tensor::from<float>({1}, {scale})), kBins);
}

// The outermost bins are twice |up| * scale, and the bins grow by (|up| * scale + 1)^(2 / 30).
TEST(DFineBins, AreSymmetricAndGrow) {
  for (const auto& [scale, growth] : {std::pair{4.0F, 1.075990}, {8.0F, 1.113264}}) {
    const auto w = bins_of(scale).values.value().to_vector<float>();
    ASSERT_EQ(w.size(), 33);
    EXPECT_EQ(w[16], 0);
    EXPECT_FLOAT_EQ(w[32], scale);
    EXPECT_FLOAT_EQ(w[31], scale / 2);
    for (size_t n = 0; n < w.size(); ++n) EXPECT_EQ(w[n], -w[32 - n]) << n;
    for (size_t n = 18; n < 32; ++n) EXPECT_NEAR((w[n] + 1) / (w[n - 1] + 1), growth, 1e-5) << n;
  }
}

// A distribution with all probability in bin n means W(n), separately for each side.
TEST(DFineBins, ABoxFollowsFromItsSides) {
  const BinScale bins = bins_of(4);
  const auto w = bins.values.value().to_vector<float>();
  const int64_t chosen[] = {16, 20, 3, 32};
  std::vector<float> p(4 * 33);
  for (size_t side = 0; side < 4; ++side) p[side * 33 + static_cast<size_t>(chosen[side])] = 1;
  const float cx = 0.4F, cy = 0.6F, width = 0.2F, height = 0.1F;
  const Var reference(Tensor::from<float>({1, 1, 4}, {cx, cy, width, height}));
  const auto box =
      boxes_of_sides(Var(Tensor::from<float>({1, 1, 4, 33}, p)), reference, bins).value().to_vector<float>();
  const float x1 = cx - (2 + w[16]) * width / 4, y1 = cy - (2 + w[20]) * height / 4,
              x2 = cx + (2 + w[3]) * width / 4, y2 = cy + (2 + w[32]) * height / 4;
  const float expected[] = {(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(box[i], expected[i], 1e-6) << i;
}

// A side between two bins belongs to both, by its distance; one beyond the ends to the outermost.
TEST(DFineBins, TargetsAreTheTwoBinsBesideASide) {
  const BinScale bins = bins_of(4);
  const auto w = bins.values.value().to_vector<float>();
  const float width = 0.2F, height = 0.2F;
  // Distances of left, top, right and bottom: exactly W(18), a quarter from W(20) to W(21), below W(0),
  // the reference itself.
  const float distance[] = {w[18], 0.75F * w[20] + 0.25F * w[21], -4.5F, 0};
  const float cx = 0.5F, cy = 0.5F, x1 = cx - (2 + distance[0]) * width / 4,
              y1 = cy - (2 + distance[1]) * height / 4, x2 = cx + (2 + distance[2]) * width / 4,
              y2 = cy + (2 + distance[3]) * height / 4;
  const Var reference(Tensor::from<float>({1, 4}, {cx, cy, width, height})),
      truth(Tensor::from<float>({1, 4}, {(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1}));
  const auto y = side_targets(reference, truth, bins).value().to_vector<float>();
  ASSERT_EQ(y.size(), 4 * 33);
  const auto of = [&](size_t side, size_t bin) { return y[side * 33 + bin]; };
  for (size_t side = 0; side < 4; ++side) {
    float sum = 0;
    for (size_t bin = 0; bin < 33; ++bin) sum += of(side, bin);
    EXPECT_NEAR(sum, 1, 1e-6) << side;
  }
  EXPECT_NEAR(of(0, 18), 1, 1e-4);
  EXPECT_NEAR(of(1, 20), 0.75, 1e-4);
  EXPECT_NEAR(of(1, 21), 0.25, 1e-4);
  EXPECT_EQ(of(2, 0), 1);
  EXPECT_NEAR(of(3, 16), 1, 1e-4);
}

// Two layers of two images with four queries each, in f64; one query of the first image and two of the second
// have an object, the same ones in both layers.
struct SideCase {
  static constexpr int64_t G = 2, N = 2, Q = 4, R = 6;
  LayerPrediction predicted;
  MatchedQueries matched;

  SideCase() {
    Rng rng(7);
    auto random = [&](const Shape& shape, double low, double high) {
      std::vector<double> values(static_cast<size_t>(shape.numel()));
      for (double& value : values) value = rng.uniform(low, high);
      return Tensor::from<double>(shape, values);
    };
    const BinScale bins =
        make_bin_scale(Var(Tensor::from<float>({1}, {0.5F})), Var(Tensor::from<float>({1}, {4})), R);
    predicted.logits = Var(random({G, N, Q, 3}, -2, 2));
    predicted.boxes = Var(random({G, N, Q, 4}, 0.3, 0.5).to(DType::kF32));
    predicted.sides = {Var(random({G, N, Q, kSides * (R + 1)}, -3, 3), true),
                       Var(random({G, N, Q, 4}, 0.3, 0.5).to(DType::kF32)), bins.values, bins.scale};
    for (int64_t g = 0; g < G; ++g)
      for (int64_t row : {1, 4, 7}) matched.rows.push_back(g * N * Q + row);
    const int64_t P = std::ssize(matched.rows);
    matched.indices = Tensor::from<int64_t>({P}, matched.rows);
    matched.truth = random({P, 4}, 0.3, 0.5).to(DType::kF32);
    matched.boxes = index_select(reshape(predicted.boxes, {G * N * Q, 4}), matched.indices);
    matched.shared_pairs = {1, 2};
    matched.shared_queries = Q;
  }

  Var loss(const LossTerm& term) const { return sum(term.sum(predicted, matched)); }
};

// Expects the gradient of a term with respect to the sides' logits of the layers before `layers` to equal
// central differences. The last layer teaches: it is a constant for "ddf".
void expect_gradient_of_differences(const char* name, int64_t layers) {
  SideCase c;
  const auto term = loss_terms().find(name).make(nullptr);
  Var& logits = c.predicted.sides.logits;
  backward(c.loss(*term));
  const auto gradient = logits.grad().to_vector<double>();
  const auto start = logits.value().to_vector<double>();
  ASSERT_EQ(logits.grad().dtype(), DType::kF64);
  const size_t per_layer = start.size() / SideCase::G;
  double largest = 0;
  for (size_t i = 0; i < per_layer * static_cast<size_t>(layers); ++i) {
    const auto at = [&](double x) {
      auto moved = start;
      moved[i] = x;
      logits = Var(Tensor::from<double>(logits.shape(), moved));
      return c.loss(*term).value().to_vector<double>()[0];
    };
    const double step = 1e-4, slope = (at(start[i] + step) - at(start[i] - step)) / (2 * step);
    EXPECT_NEAR(gradient[i], slope, 1e-7) << name << " " << i;
    largest = std::max(largest, std::abs(slope));
  }
  EXPECT_GT(largest, 1e-3);
}

TEST(DFineLosses, LocalisationsGradientIsThatOfDifferences) {
  expect_gradient_of_differences("fgl", SideCase::G);
}
TEST(DFineLosses, DistillationsGradientIsThatOfDifferences) {
  expect_gradient_of_differences("ddf", SideCase::G - 1);
}

}  // namespace
}  // namespace saccade
