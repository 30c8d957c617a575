#include "core/kernels/avg_pool2d/avg_pool2d.h"

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kLanes = 8;  // channels of one item

struct WindowSizes {
  int64_t H, W, C, OH, OW, window, blocks;

  SACCADE_HD int64_t cells(int64_t oh, int64_t ow) const {
    int64_t height = H - oh * window, width = W - ow * window;
    return (height < window ? height : window) * (width < window ? width : window);
  }
  SACCADE_HD int64_t lanes(int64_t first) const { return C - first < kLanes ? C - first : kLanes; }
};

// index = (n, oh, ow, block of channels)
template <class T>
struct AvgPoolForward {
  using A = acc_t<T>;
  WindowSizes z;
  const T* x;
  T* y;

  SACCADE_HD void operator()(int64_t i) const {
    const int64_t first = i % z.blocks * kLanes, out = i / z.blocks, lanes = z.lanes(first);
    const int64_t ow = out % z.OW, oh = out / z.OW % z.OH, n = out / z.OW / z.OH;
    A sum[kLanes] = {};
    for (int64_t h = oh * z.window; h < (oh + 1) * z.window && h < z.H; ++h) {
      for (int64_t w = ow * z.window; w < (ow + 1) * z.window && w < z.W; ++w) {
        const T* p = x + ((n * z.H + h) * z.W + w) * z.C + first;
        for (int64_t c = 0; c < lanes; ++c) sum[c] += static_cast<A>(p[c]);
      }
    }
    const A part = A(1) / static_cast<A>(z.cells(oh, ow));
    for (int64_t c = 0; c < lanes; ++c) y[out * z.C + first + c] = static_cast<T>(sum[c] * part);
  }
};

// index = (n, h, w, block of channels)
template <class T>
struct AvgPoolBackward {
  using A = acc_t<T>;
  WindowSizes z;
  const T* dy;
  T* dx;

  SACCADE_HD void operator()(int64_t i) const {
    const int64_t first = i % z.blocks * kLanes, in = i / z.blocks, lanes = z.lanes(first);
    const int64_t ow = in % z.W / z.window, oh = in / z.W % z.H / z.window, n = in / z.W / z.H;
    const T* p = dy + ((n * z.OH + oh) * z.OW + ow) * z.C + first;
    const A part = A(1) / static_cast<A>(z.cells(oh, ow));
    for (int64_t c = 0; c < lanes; ++c)
      dx[in * z.C + first + c] = static_cast<T>(static_cast<A>(p[c]) * part);
  }
};

WindowSizes window_sizes(const Tensor& x, const Tensor& y, int64_t window) {
  return {x.dim(1), x.dim(2), x.dim(3), y.dim(1), y.dim(2), window, (x.dim(3) + kLanes - 1) / kLanes};
}

void avg_pool_forward(const Tensor& x, int64_t window, Tensor& y) {
  dispatch_float(x.dtype(), "avg_pool2d", [&]<class T>() {
    WindowSizes z = window_sizes(x, y, window);
    for_each(y.dim(0) * z.OH * z.OW * z.blocks, AvgPoolForward<T>{z, x.data<T>(), y.data<T>()},
             window * window * kLanes);
  });
}

void avg_pool_backward(const Tensor& dy, int64_t window, Tensor& dx) {
  dispatch_float(dy.dtype(), "avg_pool2d", [&]<class T>() {
    WindowSizes z = window_sizes(dx, dy, window);
    for_each(dx.dim(0) * z.H * z.W * z.blocks, AvgPoolBackward<T>{z, dy.data<T>(), dx.data<T>()}, kLanes);
  });
}

SACCADE_REGISTER_KERNEL(avg_pool2d_forward, &avg_pool_forward);
SACCADE_REGISTER_KERNEL(avg_pool2d_backward, &avg_pool_backward);

}  // namespace
}  // namespace saccade::kernels
