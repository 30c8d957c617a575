#include "models/common/token_maps.h"

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

int64_t count_tokens(const std::vector<LevelShape>& levels) {
  int64_t S = 0;
  for (const LevelShape& l : levels) S += l.height * l.width;
  return S;
}

}  // namespace

std::vector<ImageSize> valid_sizes(const LevelShape& level, int64_t batch, int64_t height, int64_t width,
                                   const std::vector<ImageSize>& sizes) {
  std::vector<ImageSize> valid;
  for (int64_t n = 0; n < batch; ++n) {
    if (sizes.empty()) {
      valid.push_back({level.height, level.width});
    } else {
      const ImageSize& s = sizes[static_cast<size_t>(n)];
      valid.push_back(
          {valid_cells(level.height, height, s.height), valid_cells(level.width, width, s.width)});
    }
  }
  return valid;
}

TokenMaps make_token_maps(const std::vector<LevelShape>& levels, int64_t batch, int64_t height, int64_t width,
                          const std::vector<ImageSize>& sizes, Device device) {
  SACCADE_CHECK(sizes.empty() || static_cast<int64_t>(sizes.size()) == batch,
                "[detector] {} sizes for {} images", sizes.size(), batch);
  int64_t L = static_cast<int64_t>(levels.size()), S = count_tokens(levels);
  std::vector<std::vector<ImageSize>> valid;
  bool padded = false;
  for (const LevelShape& level : levels) {
    valid.push_back(valid_sizes(level, batch, height, width, sizes));
    for (const ImageSize& v : valid.back())
      padded = padded || v.height < level.height || v.width < level.width;
  }
  auto ratio = [&](int64_t n, int64_t l) {
    const ImageSize& v = valid[static_cast<size_t>(l)][static_cast<size_t>(n)];
    const LevelShape& level = levels[static_cast<size_t>(l)];
    return std::pair(static_cast<float>(v.width) / static_cast<float>(level.width),
                     static_cast<float>(v.height) / static_cast<float>(level.height));
  };

  TokenMaps maps;
  maps.levels = levels;
  Tensor ratios = Tensor::empty({batch, L, 2}), points = Tensor::empty({batch, S, L, 2});
  Tensor mask = Tensor::empty({batch, S}, DType::kBool);
  float *r = ratios.data<float>(), *p = points.data<float>();
  bool* m = mask.data<bool>();
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t l = 0; l < L; ++l, r += 2) std::tie(r[0], r[1]) = ratio(n, l);
    for (int64_t l = 0; l < L; ++l) {
      const LevelShape& level = levels[static_cast<size_t>(l)];
      const ImageSize& v = valid[static_cast<size_t>(l)][static_cast<size_t>(n)];
      auto [own_x, own_y] = ratio(n, l);
      for (int64_t y = 0; y < level.height; ++y) {
        for (int64_t x = 0; x < level.width; ++x, ++m) {
          *m = y >= v.height || x >= v.width;
          float centre_x = (static_cast<float>(x) + 0.5f) / (own_x * static_cast<float>(level.width));
          float centre_y = (static_cast<float>(y) + 0.5f) / (own_y * static_cast<float>(level.height));
          for (int64_t k = 0; k < L; ++k, p += 2) {
            auto [ratio_x, ratio_y] = ratio(n, k);
            p[0] = centre_x * ratio_x;
            p[1] = centre_y * ratio_y;
          }
        }
      }
    }
  }
  maps.valid_ratios = ratios.to(device);
  maps.reference_points = points.to(device);
  if (padded) maps.padding_mask = mask.to(device);
  return maps;
}

Tensor sine_positions(const LevelShape& level, int64_t batch, int64_t height, int64_t width,
                      const std::vector<ImageSize>& sizes, int64_t dim, double offset, Device device) {
  std::vector<ValidSize> valid;
  for (const ImageSize& v : valid_sizes(level, batch, height, width, sizes))
    valid.push_back({v.height, v.width});
  return sine_position_encoding(valid, level.height, level.width, dim, offset, device);
}

Proposals make_proposals(const std::vector<LevelShape>& levels, int64_t batch, int64_t height, int64_t width,
                         const std::vector<ImageSize>& sizes, Device device) {
  int64_t S = count_tokens(levels);
  Tensor logits = Tensor::empty({batch, S, 4});
  Tensor invalid = Tensor::empty({batch, S}, DType::kBool);
  float* p = logits.data<float>();
  bool* bad = invalid.data<bool>();
  for (int64_t n = 0; n < batch; ++n) {
    double size = 0.05;
    for (const LevelShape& level : levels) {
      ImageSize v = valid_sizes(level, batch, height, width, sizes)[static_cast<size_t>(n)];
      for (int64_t y = 0; y < level.height; ++y) {
        for (int64_t x = 0; x < level.width; ++x, p += 4, ++bad) {
          double box[4] = {(static_cast<double>(x) + 0.5) / static_cast<double>(v.width),
                           (static_cast<double>(y) + 0.5) / static_cast<double>(v.height), size, size};
          *bad = y >= v.height || x >= v.width;
          for (double b : box) *bad = *bad || !(b > 0.01 && b < 0.99);
          for (int i = 0; i < 4; ++i)
            p[i] = *bad ? std::numeric_limits<float>::infinity()
                        : static_cast<float>(std::log(box[i] / (1 - box[i])));
        }
      }
      size *= 2;
    }
  }
  return {logits.to(device), invalid.to(device)};
}

}  // namespace saccade
