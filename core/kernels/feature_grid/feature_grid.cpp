#include "core/kernels/feature_grid/feature_grid.h"

#include <cmath>
#include <limits>

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

template <class T>
struct CellCentre {
  T* centres;
  int64_t height, width;
  double low, high;
  SACCADE_HD void operator()(int64_t i) const {
    const int64_t y = i / width, x = i % width;
    centres[2 * i] = static_cast<T>(cell_centre(x, static_cast<double>(width)) * (high - low) + low);
    centres[2 * i + 1] = static_cast<T>(cell_centre(y, static_cast<double>(height)) * (high - low) + low);
  }
};

void cell_centres_generic(MapSize map, double low, double high, Tensor& centres) {
  dispatch_dtype<float, double>(centres.dtype(), "cell_centres", [&]<class T>() {
    for_each(map.cells(), CellCentre<T>{centres.data<T>(), map.height, map.width, low, high}, 8);
  });
}

// A token: its image, level and cell.
struct Token {
  int64_t n, level, y, x;
  SACCADE_HD Token(const FeatureLevels& levels, int64_t i) : n(i / levels.tokens()), level(0) {
    const int64_t s = i % levels.tokens();
    while (level + 1 < levels.size() && s >= levels.start(level + 1)) ++level;
    y = (s - levels.start(level)) / levels[level].width;
    x = (s - levels.start(level)) % levels[level].width;
  }
};

// Sizes [N, L, 2].
struct ValidSizes {
  const int64_t* sizes;
  int64_t levels;
  SACCADE_HD MapSize operator()(int64_t n, int64_t level) const {
    const int64_t* p = sizes + (n * levels + level) * 2;
    return {p[0], p[1]};
  }
};

struct TokenMap {
  FeatureLevels levels;
  ValidSizes valid;
  float *ratios, *points;
  bool* mask;

  // As (x, y).
  struct Ratio {
    float x, y;
  };
  SACCADE_HD Ratio ratio(int64_t n, int64_t level) const {
    const MapSize part = valid(n, level), map = levels[level];
    return {static_cast<float>(part.width) / static_cast<float>(map.width),
            static_cast<float>(part.height) / static_cast<float>(map.height)};
  }
  SACCADE_HD void operator()(int64_t i) const {
    const Token t(levels, i);
    const MapSize part = valid(t.n, t.level), map = levels[t.level];
    const Ratio own = ratio(t.n, t.level);
    mask[i] = t.y >= part.height || t.x >= part.width;
    const float centre_x = cell_centre(t.x, own.x * static_cast<float>(map.width));
    const float centre_y = cell_centre(t.y, own.y * static_cast<float>(map.height));
    float* p = points + i * levels.size() * 2;
    for (int64_t k = 0; k < levels.size(); ++k, p += 2) {
      const Ratio other = ratio(t.n, k);
      p[0] = centre_x * other.x;
      p[1] = centre_y * other.y;
    }
    if (t.y > 0 || t.x > 0) return;  // only a level's first token writes its ratio
    ratios[(t.n * levels.size() + t.level) * 2] = own.x;
    ratios[(t.n * levels.size() + t.level) * 2 + 1] = own.y;
  }
};

void token_maps_generic(const Tensor& valid, const FeatureLevels& levels, Tensor& ratios, Tensor& points,
                        Tensor& mask) {
  for_each(mask.numel(),
           TokenMap{levels,
                    {valid.data<int64_t>(), levels.size()},
                    ratios.data<float>(),
                    points.data<float>(),
                    mask.data<bool>()},
           8 * levels.size());
}

struct TokenProposal {
  FeatureLevels levels;
  ValidSizes valid;
  float* logits;
  bool* invalid;
  SACCADE_HD void operator()(int64_t i) const {
    const Token t(levels, i);
    const MapSize part = valid(t.n, t.level);
    double size = 0.05;
    for (int64_t l = 0; l < t.level; ++l) size *= 2;
    const double box[4] = {cell_centre(t.x, static_cast<double>(part.width)),
                           cell_centre(t.y, static_cast<double>(part.height)), size, size};
    bool bad = t.y >= part.height || t.x >= part.width;
    for (double b : box) bad = bad || !(b > 0.01 && b < 0.99);
    invalid[i] = bad;
    for (int k = 0; k < 4; ++k)
      logits[i * 4 + k] =
          bad ? std::numeric_limits<float>::infinity() : static_cast<float>(std::log(box[k] / (1 - box[k])));
  }
};

void token_proposals_generic(const Tensor& valid, const FeatureLevels& levels, Tensor& logits,
                             Tensor& invalid) {
  for_each(invalid.numel(),
           TokenProposal{
               levels, {valid.data<int64_t>(), levels.size()}, logits.data<float>(), invalid.data<bool>()},
           100);
}

SACCADE_REGISTER_KERNEL(cell_centres, &cell_centres_generic);
SACCADE_REGISTER_KERNEL(token_maps, &token_maps_generic);
SACCADE_REGISTER_KERNEL(token_proposals, &token_proposals_generic);

}  // namespace
}  // namespace saccade::kernels
