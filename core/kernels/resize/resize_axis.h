// One axis of a resized map, shared by the kernels' implementations.
#pragma once

#include <cstdint>

#include "core/tensor/hd.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// The cells that contribute to an output, and the outputs to which a cell contributes.
template <class A>
struct ResizeAxis {
  int64_t before, after;
  bool bilinear;

  struct Cells {
    int64_t low, high;
    A weight_low, weight_high;
    SACCADE_HD A of(int64_t cell) const {
      return (cell == low ? weight_low : A(0)) + (cell == high ? weight_high : A(0));
    }
  };
  SACCADE_HD Cells cells(int64_t out) const {
    if (!bilinear) return {out * before / after, 0, 1, 0};
    const A scale = static_cast<A>(before) / static_cast<A>(after);
    A at = (static_cast<A>(out) + A(0.5)) * scale - A(0.5);
    at = at > 0 ? at : A(0);
    int64_t low = static_cast<int64_t>(at);
    if (low >= before - 1) return {before - 1, 0, 1, 0};
    const A part = at - static_cast<A>(low);
    return {low, low + 1, 1 - part, part};
  }
  // Outputs [first, last) to which the cell may contribute.
  SACCADE_HD int64_t first(int64_t cell) const {
    if (!bilinear) return (cell * after + before - 1) / before;
    const int64_t at = cell == 0 ? 0 : (2 * cell - 1) * after / (2 * before) - 1;
    return at > 0 ? at : 0;
  }
  SACCADE_HD int64_t last(int64_t cell) const {
    if (!bilinear) return ((cell + 1) * after + before - 1) / before;
    const int64_t at = cell == before - 1 ? after : (2 * cell + 3) * after / (2 * before) + 1;
    return at < after ? at : after;
  }
};

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
