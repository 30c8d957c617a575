#include "core/kernels/max_pool2d.h"

#include "core/launch.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kTile = 32;  // channels held in registers

struct Sizes {
  int64_t H, W, C, OH, OW, kernel, stride, padding;
  int64_t tiles() const { return (C + kTile - 1) / kTile; }
};

// index = (n, oh, ow, channel tile)
template <class T>
struct PoolForward {
  using A = acc_t<T>;
  Sizes z;
  const T* x;
  T* y;
  uint8_t* index;

  template <bool Full>
  SACCADE_HD void tile(int64_t pixel, int64_t first, int64_t width) const {
    int64_t w = Full ? kTile : width;
    int64_t ow = pixel % z.OW, oh = pixel / z.OW % z.OH, n = pixel / z.OW / z.OH;
    A best[kTile];
    int32_t at[kTile];
    bool started = false;
    for (int64_t r = 0; r < z.kernel; ++r) {
      int64_t h = oh * z.stride - z.padding + r;
      if (h < 0 || h >= z.H) continue;
      for (int64_t s = 0; s < z.kernel; ++s) {
        int64_t v = ow * z.stride - z.padding + s;
        if (v < 0 || v >= z.W) continue;
        const T* p = x + ((n * z.H + h) * z.W + v) * z.C + first;
        int32_t here = static_cast<int32_t>(r * z.kernel + s);
        if (!started) {
          for (int64_t c = 0; c < w; ++c) best[c] = static_cast<A>(p[c]);
          for (int64_t c = 0; c < w; ++c) at[c] = here;
          started = true;
          continue;
        }
        for (int64_t c = 0; c < w; ++c) {
          A value = static_cast<A>(p[c]);
          bool wins = !(value <= best[c]) && best[c] == best[c];  // also when value is NaN
          best[c] = wins ? value : best[c];
          at[c] = wins ? here : at[c];
        }
      }
    }
    T* py = y + pixel * z.C + first;
    for (int64_t c = 0; c < w; ++c) py[c] = static_cast<T>(best[c]);
    if (index)
      for (int64_t c = 0; c < w; ++c) index[pixel * z.C + first + c] = static_cast<uint8_t>(at[c]);
  }
  SACCADE_HD void operator()(int64_t i) const {
    int64_t tiles = (z.C + kTile - 1) / kTile, first = i % tiles * kTile;
    if (z.C - first >= kTile)
      tile<true>(i / tiles, first, kTile);
    else
      tile<false>(i / tiles, first, z.C - first);
  }
};

// index = (n, h, w, channel tile)
template <class T>
struct PoolBackward {
  using A = acc_t<T>;
  Sizes z;
  const T* dy;
  const uint8_t* index;
  T* dx;

  template <bool Full>
  SACCADE_HD void tile(int64_t pixel, int64_t first, int64_t width) const {
    int64_t w = Full ? kTile : width;
    int64_t v = pixel % z.W, h = pixel / z.W % z.H, n = pixel / z.W / z.H;
    // Windows that cover row h: oh * stride - padding <= h < oh * stride - padding + kernel.
    int64_t top = h + z.padding, left = v + z.padding;
    int64_t oh0 = top < z.kernel ? 0 : (top - z.kernel) / z.stride + 1, oh1 = top / z.stride + 1;
    int64_t ow0 = left < z.kernel ? 0 : (left - z.kernel) / z.stride + 1, ow1 = left / z.stride + 1;
    if (oh1 > z.OH) oh1 = z.OH;
    if (ow1 > z.OW) ow1 = z.OW;
    A sum[kTile] = {};
    for (int64_t oh = oh0; oh < oh1; ++oh) {
      for (int64_t ow = ow0; ow < ow1; ++ow) {
        int32_t mine = static_cast<int32_t>((top - oh * z.stride) * z.kernel + left - ow * z.stride);
        int64_t o = ((n * z.OH + oh) * z.OW + ow) * z.C + first;
        for (int64_t c = 0; c < w; ++c)
          sum[c] += static_cast<int32_t>(index[o + c]) == mine ? static_cast<A>(dy[o + c]) : A(0);
      }
    }
    for (int64_t c = 0; c < w; ++c) dx[pixel * z.C + first + c] = static_cast<T>(sum[c]);
  }
  SACCADE_HD void operator()(int64_t i) const {
    int64_t tiles = (z.C + kTile - 1) / kTile, first = i % tiles * kTile;
    if (z.C - first >= kTile)
      tile<true>(i / tiles, first, kTile);
    else
      tile<false>(i / tiles, first, z.C - first);
  }
};

Sizes sizes(const Tensor& x, const Tensor& y, const PoolParams& p) {
  return {x.dim(1), x.dim(2), x.dim(3), y.dim(1), y.dim(2), p.kernel, p.stride, p.padding};
}

void forward_generic(const Tensor& x, const PoolParams& p, Tensor& y, Tensor& index) {
  dispatch_float(x.dtype(), "max_pool2d", [&]<class T>() {
    Sizes z = sizes(x, y, p);
    PoolForward<T> f{z, x.data<T>(), y.data<T>(), index.defined() ? index.data<uint8_t>() : nullptr};
    for_each(y.dim(0) * z.OH * z.OW * z.tiles(), f, p.kernel * p.kernel * kTile);
  });
}

void backward_generic(const Tensor& dy, const Tensor& index, const PoolParams& p, Tensor& dx) {
  dispatch_float(dy.dtype(), "max_pool2d", [&]<class T>() {
    Sizes z = sizes(dx, dy, p);
    PoolBackward<T> f{z, dy.data<T>(), index.data<uint8_t>(), dx.data<T>()};
    for_each(dx.dim(0) * z.H * z.W * z.tiles(), f, 4 * kTile);
  });
}

SACCADE_REGISTER_KERNEL(max_pool2d_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(max_pool2d_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
