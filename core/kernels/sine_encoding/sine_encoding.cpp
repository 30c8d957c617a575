#include "core/kernels/sine_encoding/sine_encoding.h"

#include <cmath>
#include <numbers>

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

// Writes channels c and c + 1 (if it exists) of the encoding of one coordinate.
SACCADE_HD void encode_pair(double coordinate, double temperature, int64_t c, int64_t channels, float* out) {
  double angle = coordinate / std::pow(temperature, static_cast<double>(c) / static_cast<double>(channels));
  out[c] = static_cast<float>(std::sin(angle));
  if (c + 1 < channels) out[c + 1] = static_cast<float>(std::cos(angle));
}

struct EncodePairs {
  const float* x;
  double temperature;
  float* y;
  int64_t channels, pairs;
  SACCADE_HD void operator()(int64_t i) const {
    encode_pair(x[i / pairs] * 2 * std::numbers::pi, temperature, i % pairs * 2, channels,
                y + i / pairs * channels);
  }
};

void sine_encoding_generic(const Tensor& x, double temperature, Tensor& y) {
  const int64_t channels = y.dim(-1), pairs = ceil_div(channels, 2);
  for_each(x.numel() * pairs, EncodePairs{x.data<float>(), temperature, y.data<float>(), channels, pairs},
           100);
}

// The axes of all levels and images, concatenated: [N, A, C / 2], A the rows and columns of all levels.
struct Axes {
  FeatureLevels levels;
  int64_t cells = 0;
  explicit Axes(const FeatureLevels& l) : levels(l) {
    for (const MapSize& map : l) cells += map.height + map.width;
  }
  // The first entry of a level: its rows, followed by its columns.
  SACCADE_HD int64_t start(int64_t level) const {
    int64_t at = 0;
    for (int64_t l = 0; l < level; ++l) at += levels[l].height + levels[l].width;
    return at;
  }
};

struct EncodeAxes {
  Axes axes;
  const int64_t* valid;
  float* table;
  double offset, temperature;
  int64_t channels, pairs;  // per axis
  SACCADE_HD void operator()(int64_t i) const {
    const int64_t row = i / pairs, n = row / axes.cells;
    int64_t level = 0, cell = row % axes.cells;
    for (; cell >= axes.levels[level].height + axes.levels[level].width; ++level)
      cell -= axes.levels[level].height + axes.levels[level].width;
    const int64_t* size = valid + (n * axes.levels.size() + level) * 2;
    const bool column = cell >= axes.levels[level].height;
    if (column) cell -= axes.levels[level].height;
    const int64_t used = size[column ? 1 : 0], last = used > 1 ? used - 1 : 0;
    const double scale = 2 * std::numbers::pi / (static_cast<double>(used) + 1e-6);
    const auto at = static_cast<double>(cell < last ? cell : last);
    encode_pair((at + 1 + offset) * scale, temperature, i % pairs * 2, channels, table + row * channels);
  }
};

constexpr bool kSideBySide = kCompiledDevice == Device::kCuda;  // neighbouring threads write neighbours

// Computes a token of one level, or on the GPU four of its channels.
struct JoinAxes {
  Axes axes;
  const float* table;
  float* y;
  int64_t level, channels, parts;
  SACCADE_HD void operator()(int64_t i) const {
    const int64_t token = i / parts, width = channels / parts, first = i % parts * width;
    const MapSize map = axes.levels[level];
    const int64_t n = token / map.cells(), cell = token % map.cells(), half = channels / 2;
    const float* image = table + (n * axes.cells + axes.start(level)) * half;
    const float* row = image + cell / map.width * half;
    const float* column = image + (map.height + cell % map.width) * half - half;
    float* out = y + token * channels;
    const int64_t end = first + width, middle = end < half ? end : half;
#pragma GCC ivdep
    for (int64_t c = first; c < middle; ++c) out[c] = row[c];
#pragma GCC ivdep
    for (int64_t c = first > half ? first : half; c < end; ++c) out[c] = column[c];
  }
};

void sine_maps_generic(const Tensor& valid, const FeatureLevels& levels, double offset, double temperature,
                       std::vector<Tensor>& maps) {
  const int64_t N = valid.dim(0), channels = maps.at(0).dim(-1), half = channels / 2,
                pairs = ceil_div(half, 2);
  const Axes axes(levels);
  Tensor table = Tensor::empty({N, axes.cells, half}, DType::kF32, valid.device());
  for_each(N * axes.cells * pairs,
           EncodeAxes{axes, valid.data<int64_t>(), table.data<float>(), offset, temperature, half, pairs},
           100);
  for (int64_t l = 0; l < levels.size(); ++l) {
    Tensor& map = maps.at(static_cast<size_t>(l));
    const int64_t parts = kSideBySide ? channels / 4 : 1;
    for_each(map.dim(0) * map.dim(1) * parts,
             JoinAxes{axes, table.data<float>(), map.data<float>(), l, channels, parts}, channels / parts);
  }
}

SACCADE_REGISTER_KERNEL(sine_maps, &sine_maps_generic);
SACCADE_REGISTER_KERNEL(sine_encoding, &sine_encoding_generic);

}  // namespace
}  // namespace saccade::kernels
