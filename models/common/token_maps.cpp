#include "models/common/token_maps.h"

#include <bit>
#include <cmath>
#include <limits>

#include "layers/position_encoding.h"

namespace saccade {
namespace {

// How many of `cells` nearest-neighbour samples of an axis of `length` pixels fall into its first `valid`.
int64_t valid_cells(int64_t cells, int64_t length, int64_t valid) {
  int64_t n = 0;
  while (n < cells && n * length / cells < valid) ++n;
  return n;
}

// The part of one level that is not padding, for every image.
std::vector<MapSize> valid_sizes(const MapSize& level, const DetectorInput& input) {
  if (input.sizes.empty()) return std::vector<MapSize>(static_cast<size_t>(input.images.dim(0)), level);
  std::vector<MapSize> valid;
  for (const ImageSize& image : input.sizes)
    valid.push_back({valid_cells(level.height, input.images.dim(1), image.height),
                     valid_cells(level.width, input.images.dim(2), image.width)});
  return valid;
}

}  // namespace

TokenMaps make_token_maps(const FeatureLevels& levels, const DetectorInput& input) {
  int64_t N = input.images.dim(0), L = levels.size(), S = levels.tokens();
  SACCADE_CHECK(input.sizes.empty() || static_cast<int64_t>(input.sizes.size()) == N,
                "[detector] {} sizes for {} images", input.sizes.size(), N);
  TokenMaps maps;
  maps.levels = levels;
  for (const MapSize& level : levels) maps.valid.push_back(valid_sizes(level, input));
  auto valid = [&](int64_t n, int64_t l) {
    return maps.valid[static_cast<size_t>(l)][static_cast<size_t>(n)];
  };
  auto ratio = [&](int64_t n, int64_t l) {
    return std::pair(static_cast<float>(valid(n, l).width) / static_cast<float>(levels[l].width),
                     static_cast<float>(valid(n, l).height) / static_cast<float>(levels[l].height));
  };

  Tensor ratios = Tensor::empty({N, L, 2}), points = Tensor::empty({N, S, L, 2});
  Tensor mask = Tensor::empty({N, S}, DType::kBool);
  float *r = ratios.data<float>(), *p = points.data<float>();
  bool *m = mask.data<bool>(), padded = false;
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t l = 0; l < L; ++l, r += 2) std::tie(r[0], r[1]) = ratio(n, l);
    for (int64_t l = 0; l < L; ++l) {
      const MapSize& level = levels[l];
      MapSize v = valid(n, l);
      padded = padded || v != level;
      auto [own_x, own_y] = ratio(n, l);
      for (int64_t y = 0; y < level.height; ++y) {
        for (int64_t x = 0; x < level.width; ++x, ++m) {
          *m = y >= v.height || x >= v.width;
          float centre_x = cell_centre(x, own_x * static_cast<float>(level.width));
          float centre_y = cell_centre(y, own_y * static_cast<float>(level.height));
          for (int64_t k = 0; k < L; ++k, p += 2) {
            auto [ratio_x, ratio_y] = ratio(n, k);
            p[0] = centre_x * ratio_x;
            p[1] = centre_y * ratio_y;
          }
        }
      }
    }
  }
  Device device = input.images.device();
  maps.valid_ratios = ratios.to(device);
  maps.reference_points = points.to(device);
  if (padded) maps.padding_mask = mask.to(device);
  return maps;
}

Tensors sine_positions(const TokenMaps& maps, int64_t channels, const SinePositions& options,
                       const ConstantKeeper* keeper) {
  const Device device = maps.valid_ratios.device();
  auto make = [&] {
    Tensors positions;
    for (size_t l = 0; l < maps.valid.size(); ++l)
      positions.push_back(sine_position_encoding(maps.valid[l], maps.levels[static_cast<int64_t>(l)],
                                                 channels, options.offset, device, options.temperature));
    return positions;
  };
  if (!keeper) return make();
  CacheKey key;
  key.add(device, channels, std::bit_cast<int64_t>(options.offset),
          std::bit_cast<int64_t>(options.temperature));
  for (size_t l = 0; l < maps.valid.size(); ++l) {
    const MapSize& level = maps.levels[static_cast<int64_t>(l)];
    key.add(level.height, level.width);
    for (const MapSize& v : maps.valid[l]) key.add(v.height, v.width);
  }
  return keeper->get(key, make);
}

Proposals make_proposals(const TokenMaps& maps) {
  int64_t N = maps.valid_ratios.dim(0), S = maps.levels.tokens();
  Tensor logits = Tensor::empty({N, S, 4});
  Tensor invalid = Tensor::empty({N, S}, DType::kBool);
  float* p = logits.data<float>();
  bool* bad = invalid.data<bool>();
  for (int64_t n = 0; n < N; ++n) {
    double size = 0.05;
    for (int64_t l = 0; l < maps.levels.size(); ++l, size *= 2) {
      const MapSize& level = maps.levels[l];
      const MapSize& v = maps.valid[static_cast<size_t>(l)][static_cast<size_t>(n)];
      for (int64_t y = 0; y < level.height; ++y) {
        for (int64_t x = 0; x < level.width; ++x, p += 4, ++bad) {
          double box[4] = {cell_centre(x, static_cast<double>(v.width)),
                           cell_centre(y, static_cast<double>(v.height)), size, size};
          *bad = y >= v.height || x >= v.width;
          for (double b : box) *bad = *bad || !(b > 0.01 && b < 0.99);
          for (int i = 0; i < 4; ++i)
            p[i] = *bad ? std::numeric_limits<float>::infinity()
                        : static_cast<float>(std::log(box[i] / (1 - box[i])));
        }
      }
    }
  }
  Device device = maps.valid_ratios.device();
  return {logits.to(device), invalid.to(device)};
}

}  // namespace saccade
