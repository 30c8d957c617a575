// What the op table cannot say about the losses: degenerate boxes, extreme logits, NaN.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/engine.h"
#include "autograd/ops.h"

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
  // At equality all forces cancel.
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

TEST(Losses, Bf16InputsComputeInF32) {
  Var boxes(Tensor::from<float>({1, 4}, std::vector<float>{0.5f, 0.5f, 0.25f, 0.5f}).to(DType::kBF16), true);
  Tensor targets = Tensor::from<float>({1, 4}, std::vector<float>{0.55f, 0.5f, 0.2f, 0.5f});
  for (auto f : {&giou_loss, &l1_loss}) {
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
