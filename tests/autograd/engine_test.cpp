// The engine: order, errors, depth, recomputation.
#include "autograd/engine.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "autograd/ops.h"
#include "core/tensor/philox.h"
#include "tests/compare_tensors.h"

namespace saccade {
namespace {

Var leaf(const Shape& shape, uint64_t seed, bool requires_grad = true) {
  Rng rng(seed);
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.uniform(-1, 1));
  return Var(t, requires_grad);
}

template <class F>
void expect_error(F&& f, const std::string& pattern) {
  try {
    f();
    ADD_FAILURE() << "nothing thrown, expected /" << pattern << "/";
  } catch (const Error& e) {
    EXPECT_TRUE(std::regex_search(e.what(), std::regex(pattern))) << e.what();
  }
}

TEST(Engine, DiamondAddsBothPaths) {
  Var x = leaf({4}, 1);
  Var y = square(x), z = mul(y, y);  // x^4, y used twice by one node
  backward(sum(add(z, y)));
  auto v = x.value().to_vector<double>(), g = x.grad().to_vector<double>();
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(g[i], 4 * v[i] * v[i] * v[i] + 2 * v[i], 1e-6);
}

TEST(Engine, GradientsAccumulateOverBackwards) {
  Var x = leaf({3}, 1);
  backward(sum(x));
  backward(sum(mul_scalar(x, 2)));
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(3, 3));
  x.clear_grad();
  EXPECT_FALSE(x.grad().defined());
}

// In f32 (a + b) + c differs from a + (b + c), so the order must always be that of creation, newest first.
TEST(Engine, AccumulationOrderIsFixed) {
  auto gradient = [] {
    Var x(Tensor::full({1}, 1.0), true);
    Var big = mul_scalar(x, 1e8), minus = mul_scalar(x, -1e8), small = mul_scalar(x, 1);
    backward(sum(add(add(big, minus), small)));
    return x.grad().item();
  };
  double first = gradient();
  EXPECT_EQ(first, 0);  // newest first: (1 - 1e8) + 1e8 loses the 1
  for (int i = 0; i < 5; ++i) EXPECT_EQ(gradient(), first);
}

TEST(Engine, AccumulationDoesNotTouchSharedGradients) {
  Var a = leaf({5}, 1), b = leaf({5}, 2);
  Var s = add(a, b);  // both leaves get one and the same gradient tensor
  backward(sum(add(s, mul_scalar(a, 3))));
  EXPECT_EQ(a.grad().to_vector<float>(), std::vector<float>(5, 4));
  EXPECT_EQ(b.grad().to_vector<float>(), std::vector<float>(5, 1));
  Tensor kept = b.grad();
  backward(sum(b));
  EXPECT_EQ(kept.to_vector<float>(), std::vector<float>(5, 1))
      << "a gradient somebody holds was changed in place";
}

TEST(Engine, SeedIsNotChanged) {
  Var x = leaf({3}, 1);
  Tensor seed = Tensor::full({3}, 1);
  backward(x, seed);
  backward(x, seed);
  backward(x, seed);
  EXPECT_EQ(seed.to_vector<float>(), std::vector<float>(3, 1));
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(3, 3));
}

TEST(Engine, GraphUsedTwice) {
  Var x = leaf({3}, 1);
  Var y = square(x);
  backward(sum(y));
  expect_error([&] { backward(sum(y)); }, "op square was already used by another backward");
}

TEST(Engine, ChangedSavedTensor) {
  Var x = leaf({3}, 1);
  Var y = sum(square(x));
  x.value().fill(0);
  expect_error([&] { backward(y); },
               "\\[square\\] a tensor saved for backward \\(number 0, shape \\[3\\]\\) was changed");
}

TEST(Engine, RootErrors) {
  Var x = leaf({3}, 1);
  expect_error([&] { backward(Var()); }, "root does not require a gradient");
  expect_error([&] { backward(x.detach()); }, "root does not require a gradient");
  expect_error([&] { backward(square(x)); }, "root of shape \\[3\\] needs a seed");
  expect_error([&] { backward(square(x), Tensor::zeros({2})); },
               "seed of shape \\[2\\] for a root of shape \\[3\\]");
}

struct WrongShape {
  static constexpr const char* kName = "wrong_shape";
  static constexpr auto macs = no_macs;
  Tensor forward(Context&, const Tensors& in) const { return in[0].clone(); }
  Gradients backward(const Context&, const Tensor&) const { return {Tensor::zeros({1})}; }
};
struct NoGradient {
  static constexpr const char* kName = "no_gradient";
  static constexpr auto macs = no_macs;
  Tensor forward(Context&, const Tensors& in) const { return in[0].clone(); }
  Gradients backward(const Context&, const Tensor&) const { return {Tensor()}; }
};

TEST(Engine, BadBackwardIsNamed) {
  Var x = leaf({3}, 1);
  expect_error([&] { backward(sum(run_op(WrongShape{}, {x}))); },
               "op wrong_shape returned a gradient of shape \\[1\\] for input 0 of shape \\[3\\]");
  expect_error([&] { backward(sum(run_op(NoGradient{}, {x}))); },
               "op no_gradient returned no gradient for input 0");
}

TEST(Engine, CheckedBackwardNamesTheOp) {
  Var x(Tensor::zeros({3}), true);
  auto loss = [&] { return sum(mul_scalar(sqrt(x), 2)); };
  expect_error([&] { backward_checked(loss()); },
               "op sqrt made a non-finite gradient for its input 0 of shape \\[3\\]");
  x.clear_grad();
  EXPECT_NO_THROW(backward(loss()));
}

TEST(Engine, DeepChainNeedsNoStack) {
  Var x = leaf({1}, 1);
  Var y = x;
  for (int i = 0; i < 200000; ++i) y = add_scalar(y, 0);
  backward(y, Tensor::full({1}, 1));
  EXPECT_EQ(x.grad().item(), 1);
  // A graph through which no backward pass has run is destroyed without recursion, too.
  Var z = x;
  for (int i = 0; i < 200000; ++i) z = add_scalar(z, 0);
  z = Var();
}

TEST(Engine, DroppedActivationsAreFreed) {
  Allocator& cpu = allocator(Device::kCpu);
  Var x = leaf({100000}, 1);
  int64_t before = cpu.stats().active_bytes;
  Var y = add_scalar(add_scalar(add_scalar(x, 1), 1), 1);  // none of them saves anything
  EXPECT_EQ(cpu.stats().active_bytes - before, 400000);
}

TEST(Engine, NoGradRecordsNothing) {
  Var x = leaf({3}, 1);
  NoGrad no_grad;
  EXPECT_FALSE(square(x).requires_grad());
}

TEST(Engine, OnlyWhatNeedsAGradientGetsOne) {
  Var a = leaf({3}, 1), b = leaf({3}, 2, false);
  backward(sum(mul(square(a), square(b))));
  EXPECT_TRUE(a.grad().defined());
  EXPECT_FALSE(b.grad().defined());
}

TEST(Engine, GradientsTakeTheLeafsDtype) {
  Var a = leaf({3}, 1);
  Var b(leaf({3}, 2).value().to(DType::kBF16), true);
  Var y = mul(a, b);
  EXPECT_EQ(y.dtype(), DType::kF32);
  backward(sum(y));
  EXPECT_EQ(a.grad().dtype(), DType::kF32);
  EXPECT_EQ(b.grad().dtype(), DType::kBF16);
}

// Each leaf is reported once, when its gradient is complete; slices add to it in place.
TEST(Engine, LeavesAreReportedWhenTheyAreComplete) {
  Var x = leaf({6, 2}, 1), w = leaf({2}, 2), unused = leaf({2}, 3, false);
  Var y = mul(slice(x, 0, 0, 2), w);
  for (int64_t i : {2, 4}) y = add(y, square(slice(x, 0, i, i + 2)));
  std::map<const VarState*, std::vector<Tensor>> reported;
  backward(sum(add(y, unused)), [&](VarState& leaf) { reported[&leaf].push_back(leaf.grad.clone()); });
  EXPECT_EQ(reported.size(), 2U);
  for (const Var& v : {x, w}) {
    const std::vector<Tensor>& seen = reported[v.state().get()];
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_TRUE(same_bits(seen[0], v.grad()));
  }
}

// y = dropout(gelu(x w)) w, where the parameter w is used only inside.
struct Block {
  Var w;
  Var operator()(const Vars& v) const {
    Var h = dropout(gelu(mul(v[0], w)), 0.3, true);
    return mul(dropout(h, 0.2, true), add(w, v[1]));
  }
};

TEST(Checkpoint, EqualsThePlainGraphBitForBit) {
  Tensor grads[2][3], outputs[2];
  for (int k = 0; k < 2; ++k) {
    ExecutionScope scope;
    execution().rng_key = 5;
    Var x = leaf({7, 9}, 1), w = leaf({9}, 2), b = leaf({7, 9}, 3);
    Block block{w};
    Var h = dropout(x, 0.1, true);
    Var y = k == 0 ? block({h, b}) : recomputed(block, {h, b});
    y = dropout(square(y), 0.5, true);  // draws after the recomputed block must be the same too
    outputs[k] = y.value();
    backward(sum(y));
    grads[k][0] = x.grad();
    grads[k][1] = w.grad();
    grads[k][2] = b.grad();
  }
  EXPECT_TRUE(same_bits(outputs[0], outputs[1]));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(grads[0][i].defined()) << i;
    EXPECT_TRUE(same_bits(grads[0][i], grads[1][i])) << i;
  }
}

TEST(Checkpoint, NestsAndReachesParametersAlone) {
  Var w = leaf({4}, 1), x = leaf({4}, 2, false);
  auto inner = [&](const Vars& v) { return mul(v[0], w); };
  auto outer = [&](const Vars& v) { return square(recomputed(inner, {v[0]})); };
  backward(sum(recomputed(outer, {x})));
  auto v = w.value().to_vector<double>(), u = x.value().to_vector<double>(), g = w.grad().to_vector<double>();
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(g[i], 2 * v[i] * u[i] * u[i], 1e-6);
}

// y = x; remembers the mode that its kernels would see.
struct ModeProbe {
  static constexpr const char* kName = "mode_probe";
  static constexpr auto macs = no_macs;
  std::vector<MathMode>* seen;
  Tensor forward(Context&, const Tensors& in) const {
    seen->push_back(execution().math);
    return in[0].clone();
  }
  Gradients backward(const Context&, const Tensor& dy) const {
    seen->push_back(execution().math);
    return {dy};
  }
};

TEST(Execution, KernelsSeeTheScopesMathMode) {
  std::vector<MathMode> seen;
  auto run = [&] { backward(sum(run_op(ModeProbe{&seen}, {leaf({3}, 1)}))); };
  {
    ExecutionScope scope;
    execution().math = MathMode::kTf32;
    run();
  }
  run();
  using enum MathMode;
  EXPECT_EQ(seen, (std::vector<MathMode>{kTf32, kTf32, kExact, kExact}));
}

}  // namespace
}  // namespace saccade
