// Compares resized tables of positions with timm and PyTorch (scripts/golden/make_position_tables.py).
#include "layers/position_tables.h"

#include <gtest/gtest.h>

#include "tests/autograd/golden.h"

namespace saccade {
namespace {

TEST(PositionTables, AreResizedAsByTimmAndPyTorch) {
  Golden golden("vision_tables/tables.safetensors");
  struct Row {
    const char* name;
    Tensor (*resize)(const Tensor& values, const Shape& to);
  };
  const Row rows[] = {{"absolute.up", &resize_positions},  {"absolute.down", &resize_positions},
                      {"absolute.two", &resize_positions}, {"absolute.none", &resize_positions},
                      {"swin.wider", &spread_bias_rows},   {"swin.narrower", &spread_bias_rows},
                      {"swin.little", &spread_bias_rows},  {"rows", &resize_bias_rows},
                      {"map", &resize_bias_maps},          {"linear", &resize_positions_linearly}};
  for (const Row& row : rows) {
    const std::string name = row.name;
    const Tensor want = golden[name + ".to"], got = row.resize(golden[name + ".from"], want.shape());
    ASSERT_EQ(got.shape(), want.shape()) << name;
    const auto a = got.to_vector<float>(), b = want.to_vector<float>();
    // The values are a few units large; PyTorch has positions and weights in f32.
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5) << name << " element " << i;
  }
}

TEST(PositionTables, OtherShapesAreNotTaken) {
  auto of = [](const Shape& shape) { return Tensor::zeros(shape); };
  EXPECT_FALSE(resize_positions(of({1, 17, 4}), {1, 26, 5}).defined());  // other channels
  EXPECT_FALSE(resize_positions(of({1, 17, 4}), {1, 27, 4}).defined());  // one token in front, two there
  EXPECT_FALSE(resize_positions(of({1, 15, 4}), {1, 17, 4}).defined());  // no square
  EXPECT_FALSE(resize_positions(of({17, 4}), {1, 26, 4}).defined());
  EXPECT_FALSE(resize_positions(of({1, 0, 4}), {1, 17, 4}).defined());
  EXPECT_FALSE(spread_bias_rows(of({25, 2}), {49, 3}).defined());  // other heads
  EXPECT_FALSE(spread_bias_rows(of({16, 2}), {49, 2}).defined());  // an even side
  EXPECT_FALSE(resize_bias_rows(of({26, 2}), {49, 2}).defined());
  EXPECT_FALSE(resize_bias_maps(of({2, 5, 4}), {2, 7, 7}).defined());
  EXPECT_FALSE(resize_bias_maps(of({2, 5, 5}), {3, 7, 7}).defined());
}

}  // namespace
}  // namespace saccade
