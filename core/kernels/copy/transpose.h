// Copies whose source is contiguous along another axis than the destination: square tiles, so that both sides
// use whole cache lines.
#pragma once

#include <optional>

#include "core/kernels/common/strided.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// y [.., rows, .., cols] = x: cols is contiguous in y, rows in x.
struct Transpose {
  static constexpr int64_t kTile = 32;
  StridedLoop<2> batch;                          // over the other axes; its innermost one is 1
  int64_t rows, cols, source_step, target_step;  // steps along cols in the source, along rows in the target

  SACCADE_HD int64_t row_tiles() const { return ceil_div(rows, kTile); }
  SACCADE_HD int64_t col_tiles() const { return ceil_div(cols, kTile); }
  int64_t tiles() const { return batch.rows() * row_tiles() * col_tiles(); }

  // For tensor 0, the destination, and 1, the source; nothing if no such pair of axes is worth tiling.
  static std::optional<Transpose> find(const StridedLoop<2>& loop) {
    constexpr int64_t kMinSize = 8;
    int last = loop.rank - 1, fast = -1;
    for (int a = 0; a < last; ++a)
      if (loop.strides[1][a] == 1) fast = a;
    if (fast < 0 || loop.step(0) != 1 || loop.sizes[fast] < kMinSize || loop.inner() < kMinSize)
      return std::nullopt;
    Transpose t{{}, loop.sizes[fast], loop.inner(), loop.step(1), loop.strides[0][fast]};
    for (int a = 0; a < last; ++a) {
      if (a == fast) continue;
      t.batch.sizes[t.batch.rank] = loop.sizes[a];
      for (int i = 0; i < 2; ++i) t.batch.strides[i][t.batch.rank] = loop.strides[i][a];
      ++t.batch.rank;
    }
    t.batch.sizes[t.batch.rank++] = 1;
    return t;
  }
};

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
