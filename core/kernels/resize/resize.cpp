#include "core/kernels/resize/resize.h"

#include "core/kernels/resize/resize_axis.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kResizeLanes = 8;  // channels per item

struct ResizeSizes {
  int64_t H, W, OH, OW, C, blocks;
  bool bilinear;
  SACCADE_HD int64_t lanes(int64_t first) const {
    return C - first < kResizeLanes ? C - first : kResizeLanes;
  }
};

// i = (n, row, column, block of channels) of y
template <class T>
struct ResizeForward {
  using A = acc_t<T>;
  ResizeSizes z;
  const T* x;
  T* y;

  SACCADE_HD void operator()(int64_t i) const {
    const int64_t first = i % z.blocks * kResizeLanes, out = i / z.blocks, lanes = z.lanes(first);
    const auto v = ResizeAxis<A>{z.H, z.OH, z.bilinear}.cells(out / z.OW % z.OH);
    const auto h = ResizeAxis<A>{z.W, z.OW, z.bilinear}.cells(out % z.OW);
    const T* map = x + out / z.OW / z.OH * z.H * z.W * z.C + first;
    T* to = y + out * z.C + first;
    const T* a = map + (v.low * z.W + h.low) * z.C;
    if (!z.bilinear) {
      for (int64_t c = 0; c < lanes; ++c) to[c] = a[c];
      return;
    }
    const T *b = map + (v.low * z.W + h.high) * z.C, *d = map + (v.high * z.W + h.low) * z.C,
            *e = map + (v.high * z.W + h.high) * z.C;
    const A wa = v.weight_low * h.weight_low, wb = v.weight_low * h.weight_high,
            wd = v.weight_high * h.weight_low, we = v.weight_high * h.weight_high;
    for (int64_t c = 0; c < lanes; ++c) {
      // A non-finite value with weight 0 is ignored.
      A sum = wa * static_cast<A>(a[c]);
      if (wb != 0) sum += wb * static_cast<A>(b[c]);
      if (wd != 0) sum += wd * static_cast<A>(d[c]);
      if (we != 0) sum += we * static_cast<A>(e[c]);
      to[c] = static_cast<T>(sum);
    }
  }
};

// i = (n, row, column, block of channels) of dx
template <class T>
struct ResizeBackward {
  using A = acc_t<T>;
  ResizeSizes z;
  const T* dy;
  T* dx;

  SACCADE_HD void operator()(int64_t i) const {
    const int64_t first = i % z.blocks * kResizeLanes, in = i / z.blocks, lanes = z.lanes(first);
    const int64_t row = in / z.W % z.H, column = in % z.W;
    const ResizeAxis<A> rows{z.H, z.OH, z.bilinear}, columns{z.W, z.OW, z.bilinear};
    const T* map = dy + in / z.W / z.H * z.OH * z.OW * z.C + first;
    A sum[kResizeLanes] = {};
    for (int64_t oh = rows.first(row), bottom = rows.last(row); oh < bottom; ++oh) {
      const A weight = rows.cells(oh).of(row);
      if (weight == 0) continue;
      for (int64_t ow = columns.first(column), right = columns.last(column); ow < right; ++ow) {
        const A w = weight * columns.cells(ow).of(column);
        if (w == 0) continue;
        const T* g = map + (oh * z.OW + ow) * z.C;
        for (int64_t c = 0; c < lanes; ++c) sum[c] += w * static_cast<A>(g[c]);
      }
    }
    for (int64_t c = 0; c < lanes; ++c) dx[in * z.C + first + c] = static_cast<T>(sum[c]);
  }
};

ResizeSizes resize_sizes(const Tensor& x, const Tensor& y, Resampling how) {
  return {x.dim(1),
          x.dim(2),
          y.dim(1),
          y.dim(2),
          x.dim(3),
          ceil_div(x.dim(3), kResizeLanes),
          how == Resampling::kBilinear};
}

void resize_forward_generic(const Tensor& x, Resampling how, Tensor& y) {
  dispatch_float(x.dtype(), "resize", [&]<class T>() {
    const ResizeSizes z = resize_sizes(x, y, how);
    for_each(y.dim(0) * z.OH * z.OW * z.blocks, ResizeForward<T>{z, x.data<T>(), y.data<T>()},
             4 * kResizeLanes);
  });
}

void resize_backward_generic(const Tensor& dy, Resampling how, Tensor& dx) {
  dispatch_float(dy.dtype(), "resize", [&]<class T>() {
    const ResizeSizes z = resize_sizes(dx, dy, how);
    for_each(dx.dim(0) * z.H * z.W * z.blocks, ResizeBackward<T>{z, dy.data<T>(), dx.data<T>()},
             4 * kResizeLanes);
  });
}

SACCADE_REGISTER_KERNEL(resize_forward, &resize_forward_generic);
SACCADE_REGISTER_KERNEL(resize_backward, &resize_backward_generic);

}  // namespace
}  // namespace saccade::kernels
