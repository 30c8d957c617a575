#include "core/kernels/avg_pool2d/avg_pool2d.h"

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kPoolLanes = 8;  // channels per item

// One axis: the cells of an output, and the outputs that use a cell; both are [first, last).
struct PoolAxis {
  int64_t before, after, window;

  SACCADE_HD int64_t first_cell(int64_t out) const { return window ? out * window : out * before / after; }
  SACCADE_HD int64_t last_cell(int64_t out) const {
    if (!window) return ((out + 1) * before + after - 1) / after;
    return (out + 1) * window < before ? (out + 1) * window : before;
  }
  SACCADE_HD int64_t cells(int64_t out) const { return last_cell(out) - first_cell(out); }
  SACCADE_HD int64_t first_output(int64_t cell) const {
    return window ? cell / window : cell * after / before;
  }
  SACCADE_HD int64_t last_output(int64_t cell) const {
    return window ? cell / window + 1 : ((cell + 1) * after + before - 1) / before;
  }
};

struct PoolSizes {
  PoolAxis rows, columns;
  int64_t C, blocks;
  SACCADE_HD int64_t lanes(int64_t first) const { return C - first < kPoolLanes ? C - first : kPoolLanes; }
};

// i = (n, row, column, block of channels) of y
template <class T>
struct AvgPoolForward {
  using A = acc_t<T>;
  PoolSizes z;
  const T* x;
  T* y;

  SACCADE_HD void operator()(int64_t i) const {
    const int64_t first = i % z.blocks * kPoolLanes, out = i / z.blocks, lanes = z.lanes(first);
    const int64_t ow = out % z.columns.after, oh = out / z.columns.after % z.rows.after;
    const T* map = x + out / z.columns.after / z.rows.after * z.rows.before * z.columns.before * z.C + first;
    A sum[kPoolLanes] = {};
    for (int64_t h = z.rows.first_cell(oh), bottom = z.rows.last_cell(oh); h < bottom; ++h) {
      for (int64_t w = z.columns.first_cell(ow), right = z.columns.last_cell(ow); w < right; ++w) {
        const T* p = map + (h * z.columns.before + w) * z.C;
        for (int64_t c = 0; c < lanes; ++c) sum[c] += static_cast<A>(p[c]);
      }
    }
    const A part = A(1) / static_cast<A>(z.rows.cells(oh) * z.columns.cells(ow));
    for (int64_t c = 0; c < lanes; ++c) y[out * z.C + first + c] = static_cast<T>(sum[c] * part);
  }
};

// i = (n, row, column, block of channels) of dx
template <class T>
struct AvgPoolBackward {
  using A = acc_t<T>;
  PoolSizes z;
  const T* dy;
  T* dx;

  SACCADE_HD void operator()(int64_t i) const {
    const int64_t first = i % z.blocks * kPoolLanes, in = i / z.blocks, lanes = z.lanes(first);
    const int64_t w = in % z.columns.before, h = in / z.columns.before % z.rows.before;
    const T* map = dy + in / z.columns.before / z.rows.before * z.rows.after * z.columns.after * z.C + first;
    A sum[kPoolLanes] = {};
    for (int64_t oh = z.rows.first_output(h), bottom = z.rows.last_output(h); oh < bottom; ++oh) {
      for (int64_t ow = z.columns.first_output(w), right = z.columns.last_output(w); ow < right; ++ow) {
        const A part = A(1) / static_cast<A>(z.rows.cells(oh) * z.columns.cells(ow));
        const T* p = map + (oh * z.columns.after + ow) * z.C;
        for (int64_t c = 0; c < lanes; ++c) sum[c] += part * static_cast<A>(p[c]);
      }
    }
    for (int64_t c = 0; c < lanes; ++c) dx[in * z.C + first + c] = static_cast<T>(sum[c]);
  }
};

PoolSizes pool_sizes(const Tensor& x, const Tensor& y, int64_t window) {
  return {
      {x.dim(1), y.dim(1), window}, {x.dim(2), y.dim(2), window}, x.dim(3), ceil_div(x.dim(3), kPoolLanes)};
}

void avg_pool_forward(const Tensor& x, int64_t window, Tensor& y) {
  dispatch_float(x.dtype(), "avg_pool2d", [&]<class T>() {
    const PoolSizes z = pool_sizes(x, y, window);
    for_each(y.dim(0) * y.dim(1) * y.dim(2) * z.blocks, AvgPoolForward<T>{z, x.data<T>(), y.data<T>()},
             z.rows.cells(0) * z.columns.cells(0) * kPoolLanes);
  });
}

void avg_pool_backward(const Tensor& dy, int64_t window, Tensor& dx) {
  dispatch_float(dy.dtype(), "avg_pool2d", [&]<class T>() {
    const PoolSizes z = pool_sizes(dx, dy, window);
    for_each(dx.dim(0) * dx.dim(1) * dx.dim(2) * z.blocks, AvgPoolBackward<T>{z, dy.data<T>(), dx.data<T>()},
             4 * kPoolLanes);
  });
}

SACCADE_REGISTER_KERNEL(avg_pool2d_forward, &avg_pool_forward);
SACCADE_REGISTER_KERNEL(avg_pool2d_backward, &avg_pool_backward);

}  // namespace
}  // namespace saccade::kernels
