// Sums over rows of row-major matrices, in tiles of kTileRows x kTileColumns: each tile writes one partial
// sum per column, and the partial sums of a column are added in order. The tiling depends only on the shape.
#pragma once

#include "core/runtime/launch.h"
#include "core/tensor/dtype.h"
#include "core/tensor/hd.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

constexpr int64_t kTileRows = 128;
constexpr int64_t kTileColumns = 64;

inline int64_t tile_rows(int64_t rows) { return ceil_div(rows, kTileRows); }
inline int64_t tile_columns(int64_t columns) { return ceil_div(columns, kTileColumns); }

// Calls tile.run<kFull>(block, first column, width) for index i of the tiles of [blocks of rows, columns]: a
// full tile's width is known at compile time.
template <class Tile>
SACCADE_HD void run_tile(const Tile& tile, int64_t i, int64_t columns) {
  int64_t per = ceil_div(columns, kTileColumns), first = i % per * kTileColumns;
  if (columns - first >= kTileColumns)
    tile.template run<true>(i / per, first, kTileColumns);
  else
    tile.template run<false>(i / per, first, columns - first);
}

// out[b, c] = sum over j of partial[b, j, c]; index = (b, group of kWidth columns)
template <class A>
struct SumPartials {
  static constexpr int64_t kWidth = 16;
  const A* partial;  // [batch, blocks, columns]
  A* out;            // [batch, columns]
  int64_t blocks, columns;
  static int64_t groups(int64_t columns) { return ceil_div(columns, kWidth); }
  SACCADE_HD void operator()(int64_t i) const {
    int64_t per = ceil_div(columns, kWidth);
    int64_t b = i / per, first = i % per * kWidth;
    int64_t n = columns - first < kWidth ? columns - first : kWidth;
    double sum[kWidth] = {};
    for (int64_t j = 0; j < blocks; ++j) {
      const A* p = partial + (b * blocks + j) * columns + first;
      for (int64_t c = 0; c < n; ++c) sum[c] += static_cast<double>(p[c]);
    }
    for (int64_t c = 0; c < n; ++c) out[b * columns + first + c] = static_cast<A>(sum[c]);
  }
};

template <class A>
void sum_partials(const A* partial, A* out, int64_t batch, int64_t blocks, int64_t columns) {
  for_each(batch * SumPartials<A>::groups(columns), SumPartials<A>{partial, out, blocks, columns},
           blocks * 16);
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
