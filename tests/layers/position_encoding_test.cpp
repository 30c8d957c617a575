// Position encodings against their formulas, computed here element by element.
#include "layers/position_encoding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace saccade {
namespace {

// Returns channel c of the encoding of a coordinate that has `half` channels.
double sine(double coordinate, int64_t c, int64_t half, double temperature = 10000) {
  double angle =
      coordinate / std::pow(temperature, 2.0 * static_cast<double>(c / 2) / static_cast<double>(half));
  return c % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

TEST(SineBoxEncoding, EncodesEachNumberOnItsOwn) {
  Tensor boxes = Tensor::from<float>({1, 2}, std::vector<float>{0.25f, 0.75f});
  for (double temperature : {10000.0, 20.0}) {
    auto values = sine_box_encoding(boxes, 4, temperature).to_vector<float>();
    ASSERT_EQ(values.size(), 8u);
    for (int64_t i = 0; i < 8; ++i)
      EXPECT_NEAR(values[static_cast<size_t>(i)],
                  sine((i < 4 ? 0.25 : 0.75) * 2 * std::numbers::pi, i % 4, 4, temperature), 1e-6);
  }
}

TEST(LearnedPositionEncoding, JoinsColumnAndRow) {
  LearnedPositionEncoding layer(4);
  layer.initialize(3);
  auto tensors = layer.named_tensors();
  ASSERT_EQ(tensors[0].name, "row_embed.weight");
  ASSERT_EQ(tensors[1].name, "col_embed.weight");
  auto rows = tensors[0].var.value().to_vector<float>(), columns = tensors[1].var.value().to_vector<float>();
  Var encoding = layer.forward({2, 3});
  ASSERT_EQ(encoding.shape(), (Shape{1, 6, 4}));
  auto values = encoding.value().to_vector<float>();
  for (size_t y = 0; y < 2; ++y)
    for (size_t x = 0; x < 3; ++x)
      for (size_t c = 0; c < 2; ++c) {
        EXPECT_EQ(values[(y * 3 + x) * 4 + c], columns[x * 2 + c]);
        EXPECT_EQ(values[(y * 3 + x) * 4 + 2 + c], rows[y * 2 + c]);
      }
  EXPECT_THROW(layer.forward({51, 3}), InputError);
}

}  // namespace
}  // namespace saccade
