// Tests position encodings of padded maps against their formula, computed here element by element, and what
// is kept of them.
#include "models/common/token_maps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace saccade {
namespace {

// Images of the size of the first map, so that pixels are cells there.
DetectorInput images_of(std::vector<ImageSize> sizes, int64_t height, int64_t width) {
  return {.images = Var(Tensor::zeros({std::ssize(sizes), height, width, 3})), .sizes = std::move(sizes)};
}

// Returns channel c of the encoding of a coordinate that has `half` channels.
double sine_channel(double coordinate, int64_t c, int64_t half, double temperature) {
  double angle =
      coordinate / std::pow(temperature, 2.0 * static_cast<double>(c / 2) / static_cast<double>(half));
  return c % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

TEST(SinePositions, FollowTheFormulaInPaddedMaps) {
  const int64_t C = 20, half = C / 2;
  const FeatureLevels levels{{5, 7}, {3, 4}};
  TokenMaps maps = make_token_maps(levels, images_of({{5, 7}, {3, 4}}, 5, 7));
  for (const SinePositions& options : {SinePositions{}, SinePositions{.offset = -0.5, .temperature = 20}}) {
    Tensors encoding = sine_positions(maps, C, options);
    for (size_t l = 0; l < 2; ++l) {
      auto [H, W] = levels[static_cast<int64_t>(l)];
      ASSERT_EQ(encoding[l].shape(), (Shape{2, H * W, C}));
      auto values = encoding[l].to_vector<float>();
      for (int64_t n = 0; n < 2; ++n) {
        const MapSize& v = maps.valid[l][static_cast<size_t>(n)];
        for (int64_t y = 0; y < H; ++y)
          for (int64_t x = 0; x < W; ++x)
            for (int64_t c = 0; c < C; ++c) {
              auto cell =
                  static_cast<double>(c < half ? std::min(y, v.height - 1) : std::min(x, v.width - 1));
              double size = static_cast<double>(c < half ? v.height : v.width) + 1e-6;
              double expected = sine_channel((cell + 1 + options.offset) / size * 2 * std::numbers::pi,
                                             c % half, half, options.temperature);
              // f32 rounding of values of at most 1.
              EXPECT_NEAR(values[static_cast<size_t>(((n * H + y) * W + x) * C + c)], expected, 1e-6);
            }
      }
    }
  }
}

TEST(SinePositions, AreSharedByABatchOfEqualSizes) {
  TokenMaps maps = make_token_maps({{2, 3}}, images_of({{2, 3}, {2, 3}}, 2, 3));
  EXPECT_EQ(sine_positions(maps, 8, {})[0].dim(0), 1);
  EXPECT_THROW(sine_positions(maps, 6, {}), Error);
}

TEST(TokenMaps, AreKeptWhileTheSizesStay) {
  ConstantKeeper keeper;
  auto points = [&](std::vector<ImageSize> sizes, int64_t width) {
    TokenMaps maps = make_token_maps({{5, width}}, images_of(std::move(sizes), 5, width), &keeper);
    return std::pair(maps.reference_points.raw(), sine_positions(maps, 8, {}, &keeper)[0].raw());
  };
  const auto first = points({{5, 7}, {3, 4}}, 7);
  EXPECT_EQ(points({{5, 7}, {3, 4}}, 7), first);
  EXPECT_NE(points({{5, 7}, {3, 5}}, 7), first);
  EXPECT_NE(points({{5, 7}, {3, 4}}, 8), first);
  EXPECT_NE(points({{5, 7}}, 7), first);
  EXPECT_EQ(keeper.size(), 8U);
}

}  // namespace
}  // namespace saccade
