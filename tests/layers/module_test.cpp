// Names of the module tree.
#include "layers/module.h"

#include <gtest/gtest.h>

#include "layers/linear.h"

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

}  // namespace
}  // namespace saccade
