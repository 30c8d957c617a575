// Attention inside the (shifted) windows of a token map, without copying the windows or a mask (Liu et al.
// 2021, "Swin Transformer", eq. 3 and 4).
//
// Shapes: qkv [N, H, W, 3C] holds queries, keys and values one after the other, each split over `heads`;
// table [(2t - 1)^2, heads] or undefined, t >= window: the bias of query (y, x) and key (v, u) of a window is
// row (y - v + t - 1) * (2t - 1) + (x - u + t - 1); padding [3C]: the queries, keys and values of the tokens
// that fill the last windows if the window does not divide the map; mask bool [N, H, W] or undefined, true =
// ignored as a key. y [N, H, W, C]; lse [N, windows, heads, window^2] = log of the sum of exp(score) of a
// row, -inf if every key is ignored (such a row of y is 0). qkv, padding and y have one dtype (f32, bf16 or
// f64); table and lse are f64 with f64 qkv and f32 otherwise. All are contiguous.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

struct WindowParams {
  int64_t heads = 1;
  int64_t window = 7;  // tokens per side
  int64_t shift = 0;   // the map is rolled up and left by this much, 0 <= shift < window
  double scale = 1;    // of the scores
};
// Added to the score of two tokens that share a window only because of the roll (the official constant).
inline constexpr float kOtherRegion = -100.0f;

// The positions of the windows' tokens. "Row" and "column" refer to the rolled, padded map.
struct WindowGeometry {
  int H, W, window, shift;
  int rows, columns;  // of windows

  WindowGeometry(int64_t height, int64_t width, const WindowParams& p)
      : H(static_cast<int>(height)),
        W(static_cast<int>(width)),
        window(static_cast<int>(p.window)),
        shift(static_cast<int>(p.shift)),
        rows(static_cast<int>(ceil_div(height, p.window))),
        columns(static_cast<int>(ceil_div(width, p.window))) {}
  SACCADE_HD int count() const { return rows * columns; }
  // Token i of window w as an index into the map, or -1 - f for filler f of the map.
  SACCADE_HD int token(int w, int i) const {
    int y = w / columns * window + i / window + shift, x = w % columns * window + i % window + shift;
    if (y >= rows * window) y -= rows * window;
    if (x >= columns * window) x -= columns * window;
    if (y < H && x < W) return y * W + x;
    int beside = columns * window - W;
    return -1 - (y < H ? y * beside + x - W : H * beside + (y - H) * columns * window + x);
  }
  SACCADE_HD int fillers() const { return rows * window * columns * window - H * W; }
  // Two tokens of a window are neighbours in the map if their regions are equal.
  SACCADE_HD int region(int w, int i) const {
    bool below = shift > 0 && w / columns == rows - 1 && i / window >= window - shift;
    bool right = shift > 0 && w % columns == columns - 1 && i % window >= window - shift;
    return (below ? 1 : 0) + (right ? 2 : 0);
  }
  // Returns whether the window holds more than one region along the rows (1), the columns (2), or both (3).
  int border(int w) const {
    if (shift == 0) return 0;
    return (w / columns == rows - 1 ? 1 : 0) + (w % columns == columns - 1 ? 2 : 0);
  }
};

inline Kernel<void(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                   const WindowParams& params, Tensor& y, Tensor& lse)>
    window_attention_forward{"window_attention_forward"};

// Gradients of dot(y, dy); undefined outputs are skipped. dtable and dpadding are f64 with f64 qkv and f32
// otherwise. The weights are recomputed from lse. Deterministic: every gradient has one owner or is summed
// over parts that depend only on the shape.
inline Kernel<void(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                   const WindowParams& params, const Tensor& lse, const Tensor& dy, Tensor& dqkv,
                   Tensor& dtable, Tensor& dpadding)>
    window_attention_backward{"window_attention_backward"};

}  // namespace saccade::kernels
