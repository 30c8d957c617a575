// Tests the names of the module tree.
#include "layers/module.h"

#include <gtest/gtest.h>

#include "layers/linear.h"
#include "layers/norm.h"

namespace saccade {
namespace {

class Body : public Module {
 public:
  Body() { make_child<Linear>("proj", 2, 3); }
  std::string type_name() const override { return "Body"; }
};

class Around : public Module {
 public:
  Around() {
    make_child<Body>("");
    make_child<Linear>("head", 3, 1);
  }
  std::string type_name() const override { return "Around"; }
};

TEST(ModuleTest, AChildWithoutANameSharesItsParentsName) {
  Around inner;
  std::vector<std::string> names;
  for (const NamedTensor& t : inner.named_tensors()) names.push_back(t.name);
  EXPECT_EQ(names, (std::vector<std::string>{"proj.weight", "proj.bias", "head.weight", "head.bias"}));
  EXPECT_EQ(child_name("a.b", ""), "a.b");
  EXPECT_EQ(child_name("", "c"), "c");
  EXPECT_EQ(child_name("a", "c"), "a.c");
}

TEST(ModuleTest, TheNameAloneDecidesTheFirstValues) {
  Around around;
  Body body;
  around.initialize(7);
  body.initialize(7);
  EXPECT_EQ(around.named_tensors()[0].var.value().to_vector<float>(),
            body.named_tensors()[0].var.value().to_vector<float>());
}

class Drawn : public Module {
 public:
  explicit Drawn(const Initializer& init) { param("weight", {3}, init); }
  std::string type_name() const override { return "Drawn"; }
};

class TwoNames : public Module {
 public:
  TwoNames(const std::string& first, const std::string& second, const Initializer& init) {
    const auto part = std::make_shared<Drawn>(init);
    child(first, part);
    child(second, part);
  }
  std::string type_name() const override { return "TwoNames"; }
};

// Otherwise two threads would draw it at the same time, into the same memory.
TEST(ModuleTest, AParameterOfTwoNamesIsDrawnOnce) {
  int draws = 0;
  const Initializer counted = [&](Tensor& t, Rng& rng) {
    ++draws;
    init::normal(0, 1)(t, rng);
  };
  TwoNames one("a", "b", counted), other("z", "b", counted);
  one.initialize(7);
  EXPECT_EQ(draws, 1);
  other.initialize(7);
  EXPECT_EQ(one.parameters()[0].var.value().to_vector<float>(),
            other.parameters()[0].var.value().to_vector<float>());
}

TEST(BatchNorm, FrozenParametersFreezeTheStatistics) {
  BatchNorm2d norm(2, false);
  norm.initialize(1);
  norm.set_training(true);
  auto mean = [&] {
    for (const NamedTensor& t : norm.named_tensors())
      if (t.name == "running_mean") return t.var.value().to_vector<float>();
    return std::vector<float>();
  };
  const Var x(Tensor::full({1, 2, 2, 2}, 3));
  norm.forward(x);
  const std::vector<float> moved = mean();
  EXPECT_NE(moved, std::vector<float>(2, 0));
  for (NamedTensor& p : norm.parameters())
    p.var.set_requires_grad(false);  // as a frozen group of the optimizer does
  norm.forward(x);
  EXPECT_EQ(mean(), moved);
}

}  // namespace
}  // namespace saccade
