#include "core/kernels/group_norm/group_norm.h"

#include <cmath>

#include "core/kernels/common/channel_norm.h"

namespace saccade::kernels {
namespace {

// Joins the channels of a group and copies the result to each of them; index = (sample, group)
template <class A>
struct GroupStatistics {
  NormView v;
  int64_t groups;
  const double *channel_mean, *m2;  // [N, C]
  const A* weight;
  A *mean, *rstd;                          // [N, groups]
  A *wide_mean, *wide_scale, *wide_shift;  // [N, C]
  const A* bias;
  double eps;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t n = i / groups, size = v.C / groups, first = i % groups * size;
    const double *mu = channel_mean + n * v.C + first, *q = m2 + n * v.C + first;
    double total = 0, square = 0;
    for (int64_t c = 0; c < size; ++c) total += mu[c];
    total /= static_cast<double>(size);
    for (int64_t c = 0; c < size; ++c)
      square += q[c] + static_cast<double>(v.S) * (mu[c] - total) * (mu[c] - total);
    mean[i] = static_cast<A>(total);
    rstd[i] = static_cast<A>(1 / std::sqrt(square / static_cast<double>(v.S * size) + eps));
    for (int64_t c = 0; c < size; ++c) {
      wide_mean[n * v.C + first + c] = mean[i];
      wide_scale[n * v.C + first + c] = rstd[i] * weight[first + c];
      wide_shift[n * v.C + first + c] = bias[first + c];
    }
  }
};

// index = (sample, group)
template <class A>
struct Spread {
  NormView v;
  int64_t groups;
  const A *mean, *rstd, *weight;
  A *wide_mean, *wide_scale;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t n = i / groups, size = v.C / groups, first = i % groups * size;
    for (int64_t c = first; c < first + size; ++c) {
      wide_mean[n * v.C + c] = mean[i];
      wide_scale[n * v.C + c] = rstd[i] * weight[c];
    }
  }
};

// Like batch norm, with the means of w g and w g (x - mean) over the group. index = (sample, group)
template <class A>
struct GroupCoefficients {
  NormView v;
  int64_t groups;
  const A *s1, *s2, *weight, *rstd;  // s1 = sum g, s2 = sum g (x - mean), [N, C]
  A *factor, *constant;              // [N, C]
  SACCADE_HD void operator()(int64_t i) const {
    int64_t n = i / groups, size = v.C / groups, first = i % groups * size;
    A a = A(0), b = A(0);
    for (int64_t c = first; c < first + size; ++c) {
      a += weight[c] * s1[n * v.C + c];
      b += weight[c] * s2[n * v.C + c];
    }
    A count = static_cast<A>(v.S * size), r = rstd[i];
    for (int64_t c = first; c < first + size; ++c) {
      factor[n * v.C + c] = -r * r * r * (b / count);
      constant[n * v.C + c] = -r * (a / count);
    }
  }
};

// index = channel
template <class A>
struct AffineGradients {
  NormView v;
  int64_t groups;
  const A *s1, *s2, *rstd;
  A *dweight, *dbias;
  SACCADE_HD void operator()(int64_t c) const {
    A w = A(0), b = A(0);
    for (int64_t n = 0; n < v.B; ++n) {
      w += s2[n * v.C + c] * rstd[n * groups + c / (v.C / groups)];
      b += s1[n * v.C + c];
    }
    if (dweight) dweight[c] = w;
    if (dbias) dbias[c] = b;
  }
};

NormView view_of(const Tensor& x) { return {x.dim(0), x.dim(1), x.dim(2)}; }

void forward_generic(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                     Tensor& mean, Tensor& rstd) {
  if (x.numel() == 0) {
    mean.fill(0);
    rstd.fill(0);
    return;
  }
  dispatch_float(x.dtype(), "group_norm", [&]<class T>() {
    using A = acc_t<T>;
    NormView v = view_of(x);
    Tensor mu = Tensor::empty({v.B, v.C}, DType::kF64, x.device()), m2 = mu.empty_like();
    channel_moments(v, x.data<T>(), mu, m2);
    Tensor wide = Tensor::empty({3, v.B * v.C}, dtype_of<A>, x.device());
    A *wm = wide.data<A>(), *ws = wm + v.B * v.C, *wb = ws + v.B * v.C;
    GroupStatistics<A> f{v,
                         mean.dim(1),
                         mu.data<double>(),
                         m2.data<double>(),
                         weight.data<A>(),
                         mean.data<A>(),
                         rstd.data<A>(),
                         wm,
                         ws,
                         wb,
                         bias.data<A>(),
                         eps};
    for_each(mean.numel(), f, v.C / mean.dim(1) * 8);
    for_each(apply_count(v), NormApply<Identity, T>{v, x.data<T>(), wm, ws, wb, y.data<T>()},
             kApplyRows * v.C);
  });
}

void backward_generic(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                      const Tensor& rstd, Tensor& dx, Tensor& dweight, Tensor& dbias) {
  if (x.numel() == 0) {
    if (dweight.defined()) dweight.fill(0);
    if (dbias.defined()) dbias.fill(0);
    return;
  }
  dispatch_float(x.dtype(), "group_norm", [&]<class T>() {
    using A = acc_t<T>;
    NormView v = view_of(x);
    int64_t groups = mean.dim(1), wide_size = v.B * v.C;
    Tensor wide = Tensor::empty({4, wide_size}, dtype_of<A>, x.device());
    A *wm = wide.data<A>(), *ws = wm + wide_size, *factor = ws + wide_size, *constant = factor + wide_size;
    for_each(mean.numel(), Spread<A>{v, groups, mean.data<A>(), rstd.data<A>(), weight.data<A>(), wm, ws},
             v.C / groups);
    Tensor s1 = Tensor::empty({v.B, v.C}, dtype_of<A>, x.device()), s2 = s1.empty_like();
    norm_gradient_sums<Identity, T>(v, dy.data<T>(), x.data<T>(), wm, ws, nullptr, s1, s2);
    if (dweight.defined() || dbias.defined()) {
      AffineGradients<A> f{v,
                           groups,
                           s1.data<A>(),
                           s2.data<A>(),
                           rstd.data<A>(),
                           data_or_null<A>(dweight),
                           data_or_null<A>(dbias)};
      for_each(v.C, f, v.B * 4);
    }
    if (!dx.defined()) return;
    GroupCoefficients<A> c{v,      groups,  s1.data<A>(), s2.data<A>(), weight.data<A>(), rstd.data<A>(),
                           factor, constant};
    for_each(mean.numel(), c, v.C / groups * 4);
    NormBackward<Identity, T> g{v,       dy.data<T>(), x.data<T>(), wm,          ws,
                                nullptr, factor,       constant,    dx.data<T>()};
    for_each(apply_count(v), g, kApplyRows * v.C);
  });
}

SACCADE_REGISTER_KERNEL(group_norm_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(group_norm_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
