// Tests deformable multi-head attention against an independent PyTorch layer (scripts/golden/make_dat.py),
// output and gradients, with every switch: align_corners against half-pixel references, groups of heads that
// share their points, odd and non-square maps, tables made for another size.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/engine.h"
#include "layers/attention.h"
#include "tests/autograd/golden.h"

namespace saccade {
namespace {

struct Case {
  const char* name;
  std::vector<int64_t> table{4, 5};
  int64_t kernel = 3, stride = 1, groups = 3;
  bool offsets = true;
  const char* position = "relative";
  double offset_range = 2;
};

class GoldenDmha : public testing::TestWithParam<Case> {};

// f32 against values that were computed in f64; the sums have up to some hundred products.
void expect_near(const Tensor& got, const Tensor& want, double tolerance, const std::string& name) {
  ASSERT_EQ(got.shape(), want.shape()) << name;
  auto a = got.to_vector<float>(), b = want.to_vector<float>();
  double worst = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  EXPECT_LE(worst, tolerance * (largest + 0.01)) << name;
}

TEST_P(GoldenDmha, EqualsPyTorch) {
  const Case& c = GetParam();
  Golden golden(std::string("dat/dmha_") + c.name + ".safetensors");
  Args args;
  args.set("size", c.table);
  args.set("kernel", c.kernel);
  args.set("stride", c.stride);
  args.set("groups", c.groups);
  args.set("offsets", c.offsets);
  args.set("position", std::string(c.position));
  args.set("offset_range", c.offset_range);
  auto layer = attention_layers().find("dmha").make({.dim = 12, .heads = 6, .levels = 1}, args);
  args.finish();
  for (const NamedTensor& t : layer->parameters()) {
    Var v = t.var;
    v.value().copy_from(golden["weight." + t.name]);
  }
  AttentionInput in;
  in.query = in.key = in.value = Var(golden["x"], true);
  auto size = golden["size"].to_vector<float>();
  in.levels = {{static_cast<int64_t>(size[0]), static_cast<int64_t>(size[1])}};
  Var y = layer->forward(in);
  expect_near(y.value(), golden["y"], 1e-5, "y");
  backward(y, golden["dy"]);
  expect_near(in.query.grad(), golden["dx"], 1e-4, "dx");
  for (const NamedTensor& t : layer->parameters())
    expect_near(t.var.grad(), golden["grad." + t.name], 1e-4, t.name);
}

INSTANTIATE_TEST_SUITE_P(
    Switches, GoldenDmha,
    testing::Values(Case{"relative"}, Case{.name = "none", .position = "none"},
                    Case{.name = "fixed", .position = "fixed"},
                    Case{.name = "depthwise", .position = "depthwise"},
                    Case{.name = "no_offsets", .offsets = false},
                    Case{.name = "no_offsets_no_table", .offsets = false, .position = "none"},
                    Case{"other_size"}, Case{"one_row"},
                    Case{.name = "stride", .table = {6, 7}, .kernel = 5, .stride = 2},
                    Case{.name = "free", .offset_range = -1}, Case{.name = "one_group", .groups = 1},
                    Case{.name = "group_a_head", .groups = 6}),
    [](const auto& c) { return std::string(c.param.name); });

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST(Dmha, RefusesWhatDoesNotFit) {
  auto make = [](const char* key, Args::Value value) {
    Args args("model.backbone.attention");
    args.set(key, std::move(value));
    return attention_layers().find("dmha").make({.dim = 8, .heads = 4, .levels = 1}, args);
  };
  EXPECT_NE(message_of([&] { make("groups", int64_t{3}); }).find("do not divide each other"),
            std::string::npos);
  EXPECT_NE(message_of([&] { make("kernel", int64_t{4}); }).find("kernel: 4 is even"), std::string::npos);
  EXPECT_NE(message_of([&] { make("size", std::vector<int64_t>{7}); }).find("attention.size"),
            std::string::npos);
  EXPECT_NE(message_of([&] { make("position", std::string("sine")); }).find("\"sine\" is not known"),
            std::string::npos);
  auto fixed = make("position", std::string("fixed"));
  AttentionInput in;
  in.query = in.key = in.value = Var(Tensor::zeros({1, 12, 8}));
  in.levels = {{3, 4}};
  EXPECT_NE(message_of([&] { fixed->forward(in); }).find("table of 14 x 14 cells, got a map of 3 x 4"),
            std::string::npos);
}

}  // namespace
}  // namespace saccade
