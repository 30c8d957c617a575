// Tests of the losses that the op table cannot express: degenerate boxes, extreme logits, NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <tuple>

#include "autograd/engine.h"
#include "autograd/ops.h"
#include "core/tensor/device.h"
#include "core/tensor/philox.h"

namespace saccade {
namespace {

struct Result {
  double loss;
  std::vector<double> grad;
};

Result run_giou(const std::vector<float>& box, const std::vector<float>& target) {
  Var x(Tensor::from({1, 4}, box), true);
  Var loss = giou_loss(x, Tensor::from({1, 4}, target));
  backward(loss);
  return {loss.value().item(), x.grad().to_vector<double>()};
}

TEST(GiouLoss, KnownValues) {
  // Two unit squares shifted by half a side: I = 1/2, U = C = 3/2.
  Result r = run_giou({0, 0, 1, 1}, {0.5f, 0, 1, 1});
  EXPECT_NEAR(r.loss, 1 - 1.0 / 3, 1e-6);
  // Apart by one side: I = 0, U = 2, C = 3, so GIoU = -1/3; moving nearer helps.
  r = run_giou({0, 0, 1, 1}, {2, 0, 1, 1});
  EXPECT_NEAR(r.loss, 1 + 1.0 / 3, 1e-6);
  EXPECT_LT(r.grad[0], 0);
  // For equal boxes all gradients cancel.
  r = run_giou({0.25f, 0.5f, 0.25f, 0.5f}, {0.25f, 0.5f, 0.25f, 0.5f});
  EXPECT_NEAR(r.loss, 0, 1e-6);
  for (double g : r.grad) EXPECT_NEAR(g, 0, 1e-5);
}

TEST(GiouLoss, BoxesWithoutAreaAreFinite) {
  const std::vector<std::vector<float>> boxes{
      {0.5f, 0.5f, 0, 0}, {0.5f, 0.5f, 0.2f, 0}, {0.2f, 0.5f, 1e-20f, 1e-20f}, {0, 0, 1e-9f, 1}};
  for (const auto& a : boxes) {
    for (const auto& b : boxes) {
      Result r = run_giou(a, b);
      EXPECT_TRUE(std::isfinite(r.loss));
      EXPECT_GE(r.loss, 0);
      EXPECT_LE(r.loss, 2 + 1e-6);
      for (double g : r.grad) EXPECT_TRUE(std::isfinite(g));
    }
  }
  EXPECT_EQ(run_giou({0.5f, 0.5f, 0, 0}, {0.5f, 0.5f, 0, 0}).loss, 1);
}

TEST(GiouLoss, NanStaysNan) {
  Result r = run_giou({std::nanf(""), 0.5f, 0.1f, 0.1f}, {0.5f, 0.5f, 0.1f, 0.1f});
  EXPECT_TRUE(std::isnan(r.loss));
}

TEST(FocalLoss, ExtremeLogits) {
  Var x(Tensor::from<float>({4, 1}, std::vector<float>{-1e4f, 1e4f, -1e4f, 1e4f}), true);
  Tensor labels = Tensor::from<int64_t>({4}, std::vector<int64_t>{0, 0, 1, 1});
  Var loss = sigmoid_focal_loss(x, labels, 0.25, 2);
  backward(loss);
  // Sure and wrong: alpha * |x| and (1 - alpha) * |x|; sure and right: 0.
  EXPECT_NEAR(loss.value().item(), 0.25e4 + 0.75e4, 1e-2);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{-0.25, 0, 0, 0.75}));
}

// Expects the losses and gradients of parts to equal those of each part alone, to the bit.
void expect_parts(Device device) {
  constexpr int64_t kParts = 3, kRows = 300, kClasses = 7;  // several pieces per part
  Rng rng(3);
  auto numbers = [&](const Shape& shape) {
    std::vector<float> values;
    for (int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<float>(rng.uniform(0.1, 0.9)));
    return Tensor::from<float>(shape, values, device);
  };
  std::vector<int64_t> drawn;
  for (int64_t i = 0; i < kParts * kRows; ++i) drawn.push_back(rng.below(kClasses));
  const Tensor logits = numbers({kParts * kRows, kClasses}), boxes = numbers({kParts * kRows, 4});
  const Tensor labels = Tensor::from<int64_t>({kParts * kRows}, drawn, device);
  const Tensor quality = numbers({kParts * kRows}), truth = numbers({kParts * kRows, 4});
  using Loss = std::function<Var(const Var&, const std::function<Tensor(const Tensor&)>&, LossParts)>;
  const std::tuple<const char*, Tensor, Loss> losses[] = {
      {"focal", logits,
       [&](const Var& x, const auto& of, LossParts p) {
         return sigmoid_focal_loss(x, of(labels), 0.25, 2, p);
       }},
      {"varifocal", logits,
       [&](const Var& x, const auto& of, LossParts p) {
         return varifocal_loss(x, of(labels), of(quality), 0.75, 2, p);
       }},
      {"cross entropy", logits,
       [&](const Var& x, const auto& of, LossParts p) { return cross_entropy(x, of(labels), {}, 0.1, p); }},
      {"giou", boxes, [&](const Var& x, const auto& of, LossParts p) { return giou_loss(x, of(truth), p); }},
      {"l1", boxes, [&](const Var& x, const auto& of, LossParts p) { return l1_loss(x, of(truth), p); }}};
  for (const auto& [name, x, loss] : losses) {
    SCOPED_TRACE(name);
    Var whole(x, true);
    const Var sums = loss(
        whole, [](const Tensor& t) { return t; }, LossParts::apart(kParts));
    ASSERT_EQ(sums.shape(), Shape{kParts});
    backward(sums, Tensor::from<float>({kParts}, std::vector<float>{2, -1, 0.5f}, device));
    for (int64_t p = 0; p < kParts; ++p) {
      auto of_part = [p](const Tensor& t) { return t.slice(0, p * kRows, (p + 1) * kRows).contiguous(); };
      Var part(of_part(x), true);
      const Var sum = loss(part, of_part, {});
      EXPECT_EQ(sum.value().item(), sums.value().select(0, p).item());
      backward(sum, Tensor::full({}, std::vector<double>{2, -1, 0.5}[static_cast<size_t>(p)], DType::kF32,
                                 device));
      EXPECT_EQ(part.grad().to_vector<float>(), of_part(whole.grad()).to_vector<float>());
    }
  }
}
TEST(LossParts, cpu) { expect_parts(Device::kCpu); }
TEST(LossParts, cuda) {
  if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  expect_parts(Device::kCuda);
}

TEST(Losses, Bf16InputsComputeInF32) {
  Var boxes(Tensor::from<float>({1, 4}, std::vector<float>{0.5f, 0.5f, 0.25f, 0.5f}).to(DType::kBF16), true);
  Tensor targets = Tensor::from<float>({1, 4}, std::vector<float>{0.55f, 0.5f, 0.2f, 0.5f});
  for (auto box_loss : {&giou_loss, &l1_loss}) {
    auto f = [=](const Var& x, const Tensor& t) { return box_loss(x, t, {}); };
    boxes.clear_grad();
    Var loss = f(boxes, targets);
    EXPECT_EQ(loss.dtype(), DType::kF32);
    EXPECT_EQ(loss.value().item(), f(Var(boxes.value().to(DType::kF32)), targets).value().item());
    backward(loss);
    EXPECT_EQ(boxes.grad().dtype(), DType::kBF16);
  }
}

}  // namespace
}  // namespace saccade
