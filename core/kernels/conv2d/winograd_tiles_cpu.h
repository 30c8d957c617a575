// The data of Winograd's algorithm: maps in tiles, and the matrices of their transforms.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/kernels/common/small_gemm_cpu.h"
#include "core/kernels/common/vector_cpu.h"
#include "core/kernels/conv2d/winograd_transforms_cpu.h"
#include "core/tensor/integers.h"
#include "core/tensor/tensor.h"
#include "core/types/feature_levels.h"

namespace saccade::cpu::winograd {

constexpr int64_t kGroup = 4 * kLanes;             // channels of a unit of work
constexpr int64_t kPanel = kTileVectors * kLanes;  // those of a register tile
static_assert(kGroup % kPanel == 0);
template <class Scheme>
constexpr int64_t kSquare = Scheme::kPoints* Scheme::kPoints;

// Square matrices of matrices, one per point. Their distance is not a power of two, so that the points do not
// share a set of the cache.
struct Points {
  int64_t side = 0, distance = 0;
  Tensor memory;
  float* first = nullptr;
  Points() = default;
  Points(int64_t side_, int64_t size, Tensor of = {})
      : side(side_), distance(round_up(size, kLanes) + kLanes), memory(std::move(of)) {
    if (!memory.defined()) memory = Tensor::empty({side * side * distance});
    first = memory.data<float>();
  }
  float* at(int64_t row, int64_t column) const { return first + (row * side + column) * distance; }
};

// Maps in tiles of step x step positions: one map [N, H, W, C], or the maps of several levels as rows.
template <class T>
struct Tiles {
  struct Level {
    MapSize size;
    int64_t rows, columns, end;  // the tiles of an image; those up to and including this level
    T* map;
  };
  int64_t C, step;
  std::vector<Level> levels;

  Tiles(T* data, const Tensor& t, const FeatureLevels& sizes, int64_t step_) : C(t.dim(-1)), step(step_) {
    if (sizes.empty()) add(data, t.dim(0), {t.dim(1), t.dim(2)});
    for (int64_t l = 0, N = t.dim(0) / std::max<int64_t>(sizes.tokens(), 1); l < sizes.size(); ++l)
      add(data + N * sizes.start(l) * C, N, sizes[l]);
  }
  int64_t count() const { return levels.back().end; }

  // Finds kSize x kSize positions, the first one `border` before the tile's first; null for those outside.
  template <int kSize>
  void positions(int64_t tile, int border, T* (&out)[kSize][kSize]) const {
    const Level* level = levels.data();
    int64_t begin = 0;
    while (tile >= level->end) begin = (level++)->end;
    tile -= begin;
    const auto [H, W] = level->size;
    const int64_t top = tile / level->columns % level->rows * step - border,
                  left = tile % level->columns * step - border;
    T* image = level->map + tile / level->columns / level->rows * H * W * C;
    for (int i = 0; i < kSize; ++i)
      for (int j = 0; j < kSize; ++j) {
        const int64_t h = top + i, v = left + j;
        out[i][j] = h < 0 || h >= H || v < 0 || v >= W ? nullptr : image + (h * W + v) * C;
      }
  }

 private:
  void add(T* map, int64_t N, const MapSize& size) {
    const int64_t rows = ceil_div(size.height, step), columns = ceil_div(size.width, step);
    levels.push_back({size, rows, columns, (levels.empty() ? 0 : count()) + N * rows * columns, map});
  }
};

// Transforms the positions' channels [first, first + count): channel c of a point goes to out.at(point) +
// place(c); the last vector is padded with zeros.
template <int kTo, auto Map, class T, int kFrom, class Place>
void transform_channels(T* (&positions)[kFrom][kFrom], int64_t first, int64_t count, Points& out,
                        const Place& place) {
  const auto vector = [&](int64_t c, const auto& read) {
    float* to = out.at(0, 0) + place(c);
    transform<kFrom, kTo, Map>(
        [&](int i, int j) { return positions[i][j] ? read(positions[i][j] + first + c) : Floats{}; },
        [&](int i, int j, Floats v) { store(to + (i * kTo + j) * out.distance, v); });
  };
  int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes) vector(c, [](const T* p) { return load(p); });
  if (c < count) vector(c, [&](const T* p) { return load_some(p, count - c); });
}

}  // namespace saccade::cpu::winograd
