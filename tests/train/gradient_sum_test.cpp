// Tests the sum of all ranks' gradients, with a second rank whose gradients are always three times those of
// this one.
#include "train/optimizers/gradient_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "autograd/engine.h"
#include "autograd/ops.h"

namespace saccade {
namespace {

constexpr float kOfBoth = 4;

// Sums are taken when they begin, and are available after wait().
class TwoRanks final : public ProcessGroup {
 public:
  const Ranks& ranks() const override { return ranks_; }
  std::vector<std::string> exchange(const std::string& part, bool) override {
    std::string other = part;
    other.replace(0, other_uses.size(), other_uses);
    return {part, other};
  }
  void gather(const Tensor&, Tensor&) override {}
  void start_sum(Tensor block) override {
    sizes.push_back(block.numel());
    if (at_start) at_start(block);
    std::vector<float> sum = block.to_vector<float>();
    for (float& x : sum) x *= kOfBoth;
    open_.emplace_back(block, std::move(sum));
  }
  void wait() override {
    for (auto& [block, sum] : open_) std::copy(sum.begin(), sum.end(), block.data<float>());
    open_.clear();
  }
  void fail(const std::string&, int) override {}
  void finish() override {}

  std::vector<int64_t> sizes;
  std::function<void(const Tensor&)> at_start;
  std::string other_uses;  // which parameters have a gradient there

 private:
  Ranks ranks_{.rank = 0, .size = 2};
  std::vector<std::pair<Tensor, std::vector<float>>> open_;
};

Var parameter(int64_t size) { return Var(Tensor::full({size}, 2.0), true); }

void expect_grad(const Var& v, float value) {
  ASSERT_TRUE(v.grad().defined());
  EXPECT_EQ(v.grad().shape(), v.shape());
  for (const float x : v.grad().to_vector<float>()) ASSERT_EQ(x, value);
}

TEST(GradientSum, BlocksBeginWhenAllTheirGradientsAreThere) {
  TwoRanks group;
  const Var a = parameter(100), b = parameter(300), c = parameter(70), d = parameter(10);
  GradientSum ranks_sum(group, {a, b, c, d}, 1024);  // blocks of 256 elements or more
  Tensor losses = Tensor::zeros({1});
  for (int step = 0; step < 2; ++step) {
    for (Var v : {a, b, c, d}) v.set_grad({});
    group.sizes.clear();
    losses.fill(1.5);
    // The gradient of v * v is 2 v = 4. Those of d and c come last, which are in the first block.
    Var loss = sum(mul(d, d));
    for (const Var& v : {c, b, a}) loss = add(loss, sum(mul(v, v)));
    ranks_sum.backward_and_start(loss);
    ranks_sum.finish(losses, "");
    for (const Var& v : {a, b, c, d}) expect_grad(v, 4 * kOfBoth);
    EXPECT_EQ(losses.item(), 1.5 * kOfBoth);
    // d, c and b, each in a multiple of 64, in one of 128; a; the losses.
    EXPECT_EQ(group.sizes, (std::vector<int64_t>{512, 128, 128}));
  }
}

TEST(GradientSum, AParameterThatNoRankUsesHasNoGradient) {
  TwoRanks group;
  const Var used = parameter(100), elsewhere = parameter(100), nowhere = parameter(100);
  GradientSum ranks_sum(group, {used, elsewhere, nowhere});
  group.other_uses = "110";
  ranks_sum.backward_and_start(sum(used));
  Tensor losses = Tensor::zeros({1});
  ranks_sum.finish(losses, "");
  expect_grad(used, kOfBoth);
  expect_grad(elsewhere, 0);  // this rank's part of it
  EXPECT_FALSE(nowhere.grad().defined());
  // What is left from the last step is not taken for a gradient.
  for (Var v : {used, elsewhere}) v.clear_grad();
  ranks_sum.backward_and_start(sum(elsewhere));
  ranks_sum.finish(losses, "");
  expect_grad(used, 0);
}

// Batches are added up; parameters are used once, twice, and as two inputs of one op.
TEST(GradientSum, GradientsAreMadeInTheirBlocks) {
  TwoRanks group;
  auto values = [](const Shape& shape) {
    std::vector<float> v(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < v.size(); ++i) v[i] = 0.1F * static_cast<float>(i % 7) - 0.25F;
    return Tensor::from(shape, v);
  };
  const Var once(values({8, 6}), true), twice(values({8, 8}), true), both(values({8}), true);
  const Var x(values({5, 6}));
  auto loss = [&] {
    const Var y = linear(linear(linear(x, once, {}), twice, {}), twice, {});
    return sum(mul(layer_norm(y, both, both, 1e-5), y));
  };
  std::vector<std::vector<float>> expected;
  for (int batch = 0; batch < 2; ++batch) backward(loss());
  for (Var v : {once, twice, both}) {
    expected.push_back(v.grad().to_vector<float>());
    for (float& g : expected.back()) g *= kOfBoth;
    v.clear_grad();
  }
  GradientSum ranks_sum(group, {once, twice, both});
  auto lies_in = [](const Tensor& block, const Var& v) {
    const auto* begin = static_cast<const char*>(block.raw());
    const auto* grad = static_cast<const char*>(v.grad().raw());
    return grad >= begin && grad < begin + block.bytes();
  };
  std::vector<bool> inside;
  group.at_start = [&](const Tensor& block) {
    if (!inside.empty()) return;  // of the losses
    for (const Var& v : {once, twice, both}) inside.push_back(lies_in(block, v));
  };
  backward(loss());
  ranks_sum.backward_and_start(loss());
  Tensor losses = Tensor::zeros({1});
  ranks_sum.finish(losses, "");
  EXPECT_EQ(inside, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(once.grad().to_vector<float>(), expected[0]);
  EXPECT_EQ(twice.grad().to_vector<float>(), expected[1]);
  EXPECT_EQ(both.grad().to_vector<float>(), expected[2]);
}

}  // namespace
}  // namespace saccade
