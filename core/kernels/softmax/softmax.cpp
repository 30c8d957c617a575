#include "core/kernels/softmax/softmax.h"

#include "core/kernels/common/lane_reduce.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int kLanes = 16;  // rows are short: heads' points, classes

template <class T, bool kLog>
struct SoftmaxRow {
  using A = acc_t<T>;
  const T* x;
  T* y;
  int64_t n;
  SACCADE_HD void operator()(int64_t row) const {
    const T* p = x + row * n;
    T* q = y + row * n;
    A top = lane_max<A, kLanes>(n, [p](int64_t i) { return A(p[i]); });
    if constexpr (kLog) {
      A shift = math::log(lane_sum<A, kLanes>(n, [p, top](int64_t i) { return math::exp(A(p[i]) - top); }));
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) q[i] = T(A(p[i]) - top - shift);
    } else if constexpr (std::is_same_v<T, A>) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) q[i] = math::exp(p[i] - top);
      A scale = A(1) / lane_sum<A, kLanes>(n, [q](int64_t i) { return q[i]; });
      for (int64_t i = 0; i < n; ++i) q[i] *= scale;
    } else {  // the exponentials are computed twice rather than rounded twice
      A scale = A(1) / lane_sum<A, kLanes>(n, [p, top](int64_t i) { return math::exp(A(p[i]) - top); });
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) q[i] = T(math::exp(A(p[i]) - top) * scale);
    }
  }
};

template <class T, bool kLog>
struct SoftmaxBackwardRow {
  using A = acc_t<T>;
  const T *y, *dy;
  T* dx;
  int64_t n;
  SACCADE_HD void operator()(int64_t row) const {
    const T *p = y + row * n, *g = dy + row * n;
    T* q = dx + row * n;
    if constexpr (kLog) {
      A total = lane_sum<A, kLanes>(n, [g](int64_t i) { return A(g[i]); });
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) q[i] = T(A(g[i]) - math::exp(A(p[i])) * total);
    } else {
      A total = lane_sum<A, kLanes>(n, [p, g](int64_t i) { return A(p[i]) * A(g[i]); });
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) q[i] = T(A(p[i]) * (A(g[i]) - total));
    }
  }
};

template <bool kLog>
void forward(const Tensor& x, Tensor& y) {
  if (x.numel() == 0) return;
  int64_t n = x.dim(-1);
  dispatch_float(x.dtype(), "softmax", [&]<class T>() {
    for_each(x.numel() / n, SoftmaxRow<T, kLog>{x.data<T>(), y.data<T>(), n}, 4 * n);
  });
}

template <bool kLog>
void backward(const Tensor& y, const Tensor& dy, Tensor& dx) {
  if (y.numel() == 0) return;
  int64_t n = y.dim(-1);
  dispatch_float(y.dtype(), "softmax_backward", [&]<class T>() {
    for_each(y.numel() / n, SoftmaxBackwardRow<T, kLog>{y.data<T>(), dy.data<T>(), dx.data<T>(), n}, 2 * n);
  });
}

SACCADE_REGISTER_KERNEL(softmax, &forward<false>);
SACCADE_REGISTER_KERNEL(softmax_backward, &backward<false>);
SACCADE_REGISTER_KERNEL(log_softmax, &forward<true>);
SACCADE_REGISTER_KERNEL(log_softmax_backward, &backward<true>);

}  // namespace
}  // namespace saccade::kernels
