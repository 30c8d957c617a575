#include "core/kernels/max_pool2d/max_pool2d.h"

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kChannels = 32;  // channels held in registers

struct Sizes {
  int64_t H, W, C, OH, OW, kernel, stride, padding;
};

// index = (n, oh)
template <class T>
struct PoolForward {
  using A = acc_t<T>;
  Sizes z;
  const T* x;
  T* y;
  uint8_t* index;

  template <bool Full>
  SACCADE_HD void tile(int64_t n, int64_t oh, int64_t ow, int64_t first, int64_t width) const {
    int64_t w = Full ? kChannels : width;
    A best[kChannels];
    int32_t at[kChannels];
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
          bool wins = !(value <= best[c]) && best[c] == best[c];  // true also if value is NaN
          best[c] = wins ? value : best[c];
          at[c] = wins ? here : at[c];
        }
      }
    }
    int64_t out = ((n * z.OH + oh) * z.OW + ow) * z.C + first;
    for (int64_t c = 0; c < w; ++c) y[out + c] = static_cast<T>(best[c]);
    if (index)
      for (int64_t c = 0; c < w; ++c) index[out + c] = static_cast<uint8_t>(at[c]);
  }
  SACCADE_HD void operator()(int64_t i) const {
    int64_t n = i / z.OH, oh = i % z.OH;
    for (int64_t ow = 0; ow < z.OW; ++ow) {
      int64_t c = 0;
      for (; c + kChannels <= z.C; c += kChannels) tile<true>(n, oh, ow, c, kChannels);
      if (c < z.C) tile<false>(n, oh, ow, c, z.C - c);
    }
  }
};

// index = (n, h): every input gathers from the windows that cover it
template <class T>
struct PoolBackward {
  using A = acc_t<T>;
  Sizes z;
  const T* dy;
  const uint8_t* index;
  T* dx;

  struct Range {
    int64_t first, last;  // outputs o with o * stride <= place < o * stride + kernel; last is excluded
  };
  SACCADE_HD Range windows(int64_t place, int64_t limit) const {
    int64_t last = place / z.stride + 1;
    return {place < z.kernel ? 0 : (place - z.kernel) / z.stride + 1, last < limit ? last : limit};
  }

  template <bool Full>
  SACCADE_HD void tile(int64_t n, int64_t h, int64_t v, Range rows, Range columns, int64_t first,
                       int64_t width) const {
    int64_t w = Full ? kChannels : width;
    A sum[kChannels] = {};
    for (int64_t oh = rows.first; oh < rows.last; ++oh) {
      for (int64_t ow = columns.first; ow < columns.last; ++ow) {
        auto mine =
            static_cast<int32_t>((h + z.padding - oh * z.stride) * z.kernel + v + z.padding - ow * z.stride);
        int64_t o = ((n * z.OH + oh) * z.OW + ow) * z.C + first;
        int32_t at[kChannels];
        for (int64_t c = 0; c < w; ++c) at[c] = index[o + c];
        for (int64_t c = 0; c < w; ++c) {
          A d = static_cast<A>(dy[o + c]);
          sum[c] += at[c] == mine ? d : A(0);
        }
      }
    }
    T* out = dx + ((n * z.H + h) * z.W + v) * z.C + first;
    for (int64_t c = 0; c < w; ++c) out[c] = static_cast<T>(sum[c]);
  }
  SACCADE_HD void operator()(int64_t i) const {
    int64_t n = i / z.H, h = i % z.H;
    Range rows = windows(h + z.padding, z.OH);
    for (int64_t v = 0; v < z.W; ++v) {
      Range columns = windows(v + z.padding, z.OW);
      int64_t c = 0;
      for (; c + kChannels <= z.C; c += kChannels) tile<true>(n, h, v, rows, columns, c, kChannels);
      if (c < z.C) tile<false>(n, h, v, rows, columns, c, z.C - c);
    }
  }
};

Sizes sizes(const Tensor& x, const Tensor& y, const PoolParams& p) {
  return {x.dim(1), x.dim(2), x.dim(3), y.dim(1), y.dim(2), p.kernel, p.stride, p.padding};
}

void forward_generic(const Tensor& x, const PoolParams& p, Tensor& y, Tensor& index) {
  dispatch_float(x.dtype(), "max_pool2d", [&]<class T>() {
    Sizes z = sizes(x, y, p);
    PoolForward<T> f{z, x.data<T>(), y.data<T>(), data_or_null<uint8_t>(index)};
    for_each(y.dim(0) * z.OH, f, z.OW * z.C * p.kernel * p.kernel);
  });
}

void backward_generic(const Tensor& dy, const Tensor& index, const PoolParams& p, Tensor& dx) {
  dispatch_float(dy.dtype(), "max_pool2d", [&]<class T>() {
    Sizes z = sizes(dx, dy, p);
    PoolBackward<T> f{z, dy.data<T>(), index.data<uint8_t>(), dx.data<T>()};
    for_each(dx.dim(0) * z.H, f, z.W * z.C * 4);
  });
}

SACCADE_REGISTER_KERNEL(max_pool2d_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(max_pool2d_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
