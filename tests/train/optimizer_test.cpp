// Tests the optimizer against PyTorch's (tests/golden/optimizer, made by scripts/golden/make_optimizer.py),
// schedules, and EMA.
#include "train/optimizers/optimizer.h"
#include "train/config/config.h"

#include <gtest/gtest.h>

#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/kernels/optimizer/optimizer.h"
#include "train/optimizers/ema.h"
#include "train/optimizers/schedule.h"

namespace saccade {
namespace {

const std::vector<std::string> kNames{"backbone.conv.weight", "head.weight", "head.bias", "never.weight"};

double worst_difference(const Tensor& a, const Tensor& b) {
  auto x = a.to_vector<double>(), y = b.to_vector<double>();
  EXPECT_EQ(x.size(), y.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(x[i] - y[i]));
  return worst;
}

config::Optimizer optimizer_of(const std::string& text) {
  return parse_config("optimizer { " + text + " }", "F").optimizer();
}
config::Schedule schedule_of(const std::string& text) {
  return parse_config("schedule { " + text + " }", "F").schedule();
}

// The last group never applies, since earlier ones match first.
config::Optimizer golden_options(const std::string& type) {
  config::Optimizer o = optimizer_of(
      "learning_rate: 2e-2 weight_decay: 1e-2 clip_norm: 0.5 group { regex: \"^backbone\\\\.\" lr_mult: 0.1 } "
      "group { regex: \"bias$\" weight_decay: 0 } group { regex: \"conv\" lr_mult: 7 }");
  o.set_type(type);
  return o;
}

struct GoldenRun {
  SafetensorsReader golden;
  std::vector<NamedTensor> params;

  explicit GoldenRun(const std::string& type)
      : golden(std::string(SACCADE_SOURCE_DIR) + "/tests/golden/optimizer/" + type + ".safetensors") {
    for (const std::string& n : kNames) params.push_back({n, Var(golden.read("start." + n), true)});
  }
  double step(Optimizer& optimizer, int i) {
    optimizer.zero_grad();
    for (NamedTensor& p : params) {
      std::string key = fmt::format("grad{}.{}", i, p.name);
      if (golden.find(key)) p.var.set_grad(golden.read(key));
    }
    return *optimizer.step(i < 6 ? 1.0 : 0.1).data<double>();
  }
};

class OptimizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(OptimizerGolden, TenStepsEqualPyTorch) {
  GoldenRun run(GetParam());
  Optimizer optimizer(run.params, golden_options(GetParam()));
  auto norms = run.golden.read("norms").to_vector<float>();
  uint32_t version = run.params[0].var.value().storage()->version();
  // PyTorch sums the norm in f32.
  for (int i = 0; i < 10; ++i)
    EXPECT_NEAR(run.step(optimizer, i), norms[static_cast<size_t>(i)], 2e-6 * norms[static_cast<size_t>(i)]);
  EXPECT_GT(run.params[0].var.value().storage()->version(), version);
  // Ten updates of values up to 4 (whose f32 spacing is 2.4e-7), each rounded once or twice in another order.
  for (NamedTensor& p : run.params)
    EXPECT_LT(worst_difference(p.var.value(), run.golden.read("end." + p.name)), 2e-6) << p.name;
}

TEST_P(OptimizerGolden, StateRestoresExactly) {
  GoldenRun whole(GetParam()), first(GetParam()), second(GetParam());
  Optimizer a(whole.params, golden_options(GetParam()));
  for (int i = 0; i < 10; ++i) whole.step(a, i);
  Optimizer b(first.params, golden_options(GetParam()));
  for (int i = 0; i < 4; ++i) first.step(b, i);
  Optimizer c(second.params, golden_options(GetParam()));
  std::map<std::string, Tensor> state;
  for (auto& [name, t] : b.state()) state[name] = t.clone();
  EXPECT_FALSE(state.contains("step.never.weight"));
  c.load_state([&](const std::string& n) { return state.contains(n) ? state[n] : Tensor(); });
  for (size_t i = 0; i < kNames.size(); ++i)
    second.params[i].var.value().copy_from(first.params[i].var.value());
  for (int i = 4; i < 10; ++i) second.step(c, i);
  for (size_t i = 0; i < kNames.size(); ++i)
    EXPECT_EQ(worst_difference(whole.params[i].var.value(), second.params[i].var.value()), 0) << kNames[i];
}

INSTANTIATE_TEST_SUITE_P(Types, OptimizerGolden, testing::Values("adamw", "sgd"),
                         [](const auto& type) { return std::string(type.param); });

TEST(Optimizer, ThreadsDoNotChangeTheBits) {
  auto run = [](int threads) {
    omp_set_num_threads(threads);
    Rng rng(5);
    std::vector<float> x(300000), g(300000);
    for (float& v : x) v = static_cast<float>(rng.normal());
    for (float& v : g) v = static_cast<float>(rng.normal());
    Var p(Tensor::from(Shape{300000}, x), true);
    Optimizer optimizer({{"p", p}}, config::Optimizer());
    p.set_grad(Tensor::from(Shape{300000}, g));
    double norm = *optimizer.step(1).data<double>();
    return std::pair(norm, p.value().to_vector<float>());
  };
  int before = omp_get_max_threads();
  auto one = run(1), three = run(3);
  omp_set_num_threads(before);
  EXPECT_EQ(one, three);
}

TEST(Optimizer, NonFiniteGradientChangesNothing) {
  Var p(Tensor::full({3}, 1), true);
  Optimizer optimizer({{"p", p}}, config::Optimizer());
  p.set_grad(Tensor::from(Shape{3}, std::vector<float>{1, INFINITY, 0}));
  EXPECT_FALSE(std::isfinite(*optimizer.step(1).data<double>()));
  EXPECT_EQ(p.value().to_vector<float>(), std::vector<float>(3, 1.0f));
  EXPECT_TRUE(optimizer.state().empty());
  // A loss that is not finite changes nothing either, whatever its gradient.
  p.set_grad(Tensor::full({3}, 1));
  std::vector<Tensor> losses{Tensor::full({1}, 2), Tensor::full({2}, INFINITY)};
  EXPECT_FALSE(std::isfinite(*optimizer.step(1, losses).data<double>()));
  EXPECT_EQ(p.value().to_vector<float>(), std::vector<float>(3, 1.0f));
  EXPECT_TRUE(optimizer.state().empty());
  // The next step counts as the first.
  losses.pop_back();
  EXPECT_FLOAT_EQ(static_cast<float>(*optimizer.step(1, losses).data<double>()), std::sqrt(3.0f));
  EXPECT_EQ(optimizer.state().back().second.item(), 1);
  EXPECT_LT(p.value().to_vector<float>()[0], 1.0f);
}

// What is restored counts, whatever the step before it was.
TEST(Optimizer, RestoredStepsCountAfterALostOne) {
  Var p(Tensor::full({3}, 1), true);
  Optimizer optimizer({{"p", p}}, config::Optimizer());
  p.set_grad(Tensor::full({3}, 1));
  optimizer.step(1);
  const NamedValues saved = optimizer.state();
  p.set_grad(Tensor::full({3}, NAN));
  optimizer.step(1);
  optimizer.load_state([&](const std::string& name) {
    const auto at = std::ranges::find(saved, name, &NamedValues::value_type::first);
    return at == saved.end() ? Tensor() : at->second;
  });
  ASSERT_FALSE(optimizer.state().empty());
  EXPECT_EQ(optimizer.state().back().second.item(), 1);
}

TEST(Optimizer, SgdWithoutMomentumKeepsNoMomentum) {
  for (const double momentum : {0.0, 0.9}) {
    Var p(Tensor::full({3}, 1), true);
    Optimizer optimizer({{"p", p}}, optimizer_of(fmt::format("type: \"sgd\" momentum: {}", momentum)));
    p.set_grad(Tensor::full({3}, 1));
    optimizer.step(1);
    EXPECT_EQ(optimizer.state().size(), momentum > 0 ? 2U : 1U) << momentum;  // the number of steps, too
  }
}

// An op that has saved a tensor sees by its version that it was changed. This holds for averages and state,
// too.
TEST(Optimizer, ChangesTheVersionsOfAllItWrites) {
  kernels::OptimizerItem item{
      Tensor::full({3}, 1), Tensor::full({3}, 1), {Tensor::zeros({3}), Tensor::zeros({3})}, 0.1};
  item.average = Tensor::full({3}, 1);
  const std::array written{item.value, item.state[0], item.state[1], item.average};
  Tensor norm = Tensor::full({1}, 1, DType::kF64);
  kernels::update_kernel("adamw")(norm, 0, std::span(&item, 1), {}, 0.5);
  for (size_t i = 0; i < written.size(); ++i) EXPECT_GT(written[i].storage()->version(), 0u) << i;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Optimizer, GroupsFreezeAndComplain) {
  Var a(Tensor::zeros({2}), true), b(Tensor::zeros({2}), true);
  std::vector<NamedTensor> params{{"a.weight", a}, {"b.weight", b}};
  auto group = [](const std::string& regex, bool frozen) {
    return optimizer_of(fmt::format("group {{ regex: \"{}\" frozen: {} }}", regex, frozen));
  };
  Optimizer optimizer(params, group("^a", true));
  EXPECT_FALSE(a.requires_grad());
  EXPECT_EQ(optimizer.parameter_count(), 1);
  EXPECT_EQ(message_of([&] { Optimizer(params, group("nothing", false)); }),
            "optimizer.group: \"nothing\" matches no parameter of the model");
  EXPECT_NE(message_of([&] { Optimizer(params, group("(", false)); }).find("is not a regular expression"),
            std::string::npos);
  EXPECT_NE(message_of([&] { Optimizer(params, group(".", true)); }).find("nothing is left"),
            std::string::npos);
}

// Each layer before the last one of its group has a rate that is smaller by the factor.
TEST(Optimizer, RatesFallFromLayerToLayer) {
  std::vector<Var> vars;
  std::vector<NamedTensor> params;
  for (const char* name : {"blocks.0.a", "blocks.2.a", "blocks.11.a", "head"}) {
    vars.emplace_back(Tensor::full({2, 2}, 1), true);
    params.push_back({name, vars.back()});
  }
  const config::Optimizer o = optimizer_of(
      "learning_rate: 0.5 weight_decay: 1 group { regex: \"blocks[.]([0-9]+)\" lr_mult: 0.5 layer_decay: 0.8 }");
  Optimizer optimizer(params, o);
  for (Var v : vars) v.set_grad(Tensor::zeros(v.shape()));
  optimizer.step(1);  // the decay alone: 1 - rate
  const double expected[] = {0.25 * std::pow(0.8, 11), 0.25 * std::pow(0.8, 9), 0.25, 0.5};
  for (size_t i = 0; i < vars.size(); ++i)
    EXPECT_NEAR(vars[i].value().to_vector<float>()[0], 1 - expected[i], 1e-6) << params[i].name;
  for (const char* regex : {"blocks", "(block)s"})
    EXPECT_NE(message_of([&] {
                Optimizer(params,
                          optimizer_of(fmt::format("group {{ regex: \"{}\" layer_decay: 0.5 }}", regex)));
              }).find("has no (...) group that captures the number of a layer in \"blocks.0.a\""),
              std::string::npos)
        << regex;
}

TEST(Optimizer, ParametersOfOneDimensionMayKeepTheirSize) {
  Var matrix(Tensor::full({2, 2}, 1), true), bias(Tensor::full({2}, 1), true),
      own(Tensor::full({2}, 1), true);
  const config::Optimizer o = optimizer_of(
      "learning_rate: 0.5 weight_decay: 0.1 no_decay_1d: true group { regex: \"own\" weight_decay: 0.2 }");
  Optimizer optimizer({{"matrix", matrix}, {"bias", bias}, {"own", own}}, o);
  for (Var v : {matrix, bias, own}) v.set_grad(Tensor::zeros(v.shape()));
  optimizer.step(1);
  EXPECT_FLOAT_EQ(matrix.value().to_vector<float>()[0], 0.95f);
  EXPECT_FLOAT_EQ(bias.value().to_vector<float>()[0], 1);
  EXPECT_FLOAT_EQ(own.value().to_vector<float>()[0], 0.9f);  // its group decides
}

TEST(Schedule, WarmUpInEpochsFromARatio) {
  // Swin's schedule with 100 steps an epoch: from 1e-3 of the rate over 20 epochs, then down to 1e-2.
  config::Schedule o = schedule_of("type: \"cosine\" warmup_epochs: 20 warmup_ratio: 1e-3 final_ratio: 1e-2");
  check_schedule(o);
  auto factor = [&](int64_t step) { return learning_rate_factor(o, step, 100, 30000); };
  EXPECT_DOUBLE_EQ(factor(0), 1e-3);
  EXPECT_DOUBLE_EQ(factor(1000), 0.5005);
  EXPECT_DOUBLE_EQ(factor(2000), 1);
  EXPECT_DOUBLE_EQ(factor(16000), 0.505);
  EXPECT_DOUBLE_EQ(factor(30000), 1e-2);
  o.set_warmup_steps(5);
  EXPECT_NE(message_of([&] { check_schedule(o); }).find("warmup_steps (5) cannot be combined"),
            std::string::npos);
}

TEST(Schedule, Curves) {
  const config::Schedule constant = schedule_of("type: \"constant\""),
                         step = schedule_of("type: \"step\" drop_epochs: [2, 3.5]"),
                         cosine = schedule_of("type: \"cosine\" warmup_steps: 10 final_ratio: 0.2"),
                         poly = schedule_of("type: \"poly\" power: 2 final_ratio: 0.2");
  EXPECT_EQ(learning_rate_factor(constant, 12345, 10, 20), 1);
  EXPECT_EQ(learning_rate_factor(step, 19, 10, 100), 1);
  EXPECT_EQ(learning_rate_factor(step, 20, 10, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_factor(step, 35, 10, 100), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate_factor(cosine, 0, 10, 110), 0.1);  // warm-up: 1 / 10
  EXPECT_DOUBLE_EQ(learning_rate_factor(cosine, 9, 10, 110), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_factor(cosine, 10, 10, 110), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_factor(cosine, 60, 10, 110), 0.6);  // half way from 1 to 0.2
  EXPECT_DOUBLE_EQ(learning_rate_factor(cosine, 110, 10, 110), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_factor(cosine, 500, 10, 110), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_factor(poly, 0, 10, 100), 1);
  EXPECT_DOUBLE_EQ(learning_rate_factor(poly, 50, 10, 100), 0.4);  // 0.2 + 0.8 / 4
  EXPECT_DOUBLE_EQ(learning_rate_factor(poly, 500, 10, 100), 0.2);
  EXPECT_NE(message_of([] {
              check_schedule(schedule_of("type: \"linear\""));
            }).find("expected one of constant, cosine, "),
            std::string::npos);
}

// DEIM's schedule of 60 epochs with 100 steps each: quadratic warm-up over 2000 steps, flat to epoch 34, down
// to half at 58.
TEST(Schedule, FlatThenCosineThenConstant) {
  const config::Schedule o = schedule_of(
      "type: \"flat_cosine\" warmup_steps: 2000 final_ratio: 0.5 flat_epochs: 34 end_epochs: 2 "
      "warmup_shape: \"quadratic\"");
  for (auto [step, expected] :
       std::vector<std::pair<int64_t, double>>{{0, 1.0 / 4e6},
                                               {999, 0.25},
                                               {1999, 1},
                                               {3399, 1},
                                               {3400, 1},
                                               {4000, 0.5 + 0.25 * (1 + std::sqrt(0.5))},
                                               {4600, 0.75},
                                               {5800, 0.5},
                                               {5999, 0.5},
                                               {7000, 0.5}})
    EXPECT_NEAR(learning_rate_factor(o, step, 100, 6000), expected, 1e-12) << step;
  EXPECT_EQ(
      learning_rate_factor(schedule_of("type: \"flat_cosine\" final_ratio: 0.1 end_epochs: 9"), 0, 10, 50),
      0.1)
      << "an end that is longer than the run";
  const config::Schedule from_ratio =
      schedule_of("type: \"constant\" warmup_steps: 10 warmup_ratio: 0.2 warmup_shape: \"quadratic\"");
  EXPECT_DOUBLE_EQ(learning_rate_factor(from_ratio, 5, 10, 50), 0.4);
}

struct TwoTensors : Module {
  Var weight = param("weight", {2}, {}), constant = param("constant", {1}, {}, false),
      mean = buffer("mean", {2}, 0);
  std::string type_name() const override { return "TwoTensors"; }
};

class EmaFormula : public testing::TestWithParam<double> {};

TEST_P(EmaFormula, IsFollowed) {
  TwoTensors model;
  const double tau = GetParam();
  Ema ema(model, 0.5, tau);
  double average = 0;
  for (int t = 0; t < 20; ++t) {
    model.weight.value().fill(t);
    model.mean.value().fill(-t);
    ema.update().finish(Tensor::full({1}, 1, DType::kF64));
    double d = tau > 0 ? 0.5 * (1 - std::exp(-(t + 1) / tau)) : std::min(0.5, (1.0 + t) / (10.0 + t));
    average = d * average + (1 - d) * t;
  }
  {
    EmaScope scope(&ema);
    EXPECT_NEAR(model.weight.value().to_vector<float>()[1], average, 1e-5);
    EXPECT_NEAR(model.mean.value().to_vector<float>()[0], -average, 1e-5);
  }
  EXPECT_EQ(model.weight.value().to_vector<float>()[1], 19);
  EXPECT_EQ(ema.state().size(), 2u);  // the constant is not averaged
}
INSTANTIATE_TEST_SUITE_P(Tau, EmaFormula, testing::Values(0, 8));

TEST(Ema, AStoredTensorMustFit) {
  Tensor to = Tensor::zeros({2, 3});
  copy_stored("x", Tensor::full({2, 3}, 4.0), to);
  EXPECT_EQ(to.to_vector<float>(), std::vector<float>(6, 4));
  for (const Tensor& stored : {Tensor(), Tensor::full({1, 3}, 5.0), Tensor::full({2, 3}, 5.0, DType::kF64)})
    EXPECT_THROW(copy_stored("x", stored, to), InputError);
  EXPECT_EQ(to.to_vector<float>(), std::vector<float>(6, 4));
}

// A parameter's average follows its step, in the optimizer's kernel or after it; so does a buffer's.
TEST(Ema, FollowsTheOptimizer) {
  for (const char* type : {"adamw", "sgd"}) {
    TwoTensors model;
    model.weight.value().fill(1);
    Optimizer optimizer(model.parameters(),
                        optimizer_of(fmt::format("type: \"{}\" learning_rate: 0.5 clip_norm: 0", type)));
    Ema ema(model, 0.9);
    model.mean.value().fill(3);
    model.weight.set_grad(Tensor::full({2}, 1));
    optimizer.step(1, {}, &ema);
    const float moved = model.weight.value().to_vector<float>()[1];
    EXPECT_LT(moved, 0.6f);
    EmaScope scope(&ema);  // after no earlier update the new value weighs 0.9
    EXPECT_NEAR(model.weight.value().to_vector<float>()[1], 1 + 0.9 * (moved - 1), 1e-6) << type;
    EXPECT_NEAR(model.mean.value().to_vector<float>()[0], 0.9 * 3, 1e-6) << type;
  }
}

// The trained parameters are in one block, as is each moment, and keep their values.
TEST(Optimizer, KeepsItsTensorsTogether) {
  Var a(Tensor::from(Shape{3}, std::vector<float>{1, 2, 3}), true), b(Tensor::full({2, 2}, 4), true);
  Optimizer optimizer({{"a", a}, {"b", b}}, config::Optimizer());
  EXPECT_EQ(a.value().storage(), b.value().storage());
  EXPECT_EQ(a.value().to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(b.value().to_vector<float>(), std::vector<float>(4, 4));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.value().raw()) % 64, 0u);
  EXPECT_TRUE(optimizer.state().empty());
}

}  // namespace
}  // namespace saccade
