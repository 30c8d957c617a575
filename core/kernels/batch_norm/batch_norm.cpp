#include "core/kernels/batch_norm/batch_norm.h"

#include <cmath>

#include "core/kernels/common/channel_norm.h"

namespace saccade::kernels {
namespace {

// Computes mean, rstd and scale from the batch's moments (training) or the running ones; index = channel
template <class A>
struct Statistics {
  const double *batch_mean, *m2;  // nullptr: uses the running ones
  const A* weight;
  A *running_mean, *running_var, *mean, *rstd, *scale;
  int64_t rows;
  double momentum, eps;
  SACCADE_HD void operator()(int64_t c) const {
    double mu = static_cast<double>(running_mean[c]), variance = static_cast<double>(running_var[c]);
    if (batch_mean) {
      mu = batch_mean[c];
      variance = m2[c] / static_cast<double>(rows);
      double unbiased = rows > 1 ? m2[c] / static_cast<double>(rows - 1) : variance;
      running_mean[c] = static_cast<A>((1 - momentum) * static_cast<double>(running_mean[c]) + momentum * mu);
      running_var[c] =
          static_cast<A>((1 - momentum) * static_cast<double>(running_var[c]) + momentum * unbiased);
    }
    mean[c] = static_cast<A>(mu);
    rstd[c] = static_cast<A>(1 / std::sqrt(variance + eps));
    scale[c] = rstd[c] * weight[c];
  }
};

// Derivation: with xh = (x - mean) rstd, dx = weight rstd (g - mean(g) - xh mean(g xh)), so the factor of (x
// - mean) is -weight rstd^3 s2 / R and the constant -weight rstd s1 / R; with fixed statistics both are 0.
// index = channel
template <class A>
struct Coefficients {
  const A *s1, *s2, *weight, *rstd;  // s1 = sum g, s2 = sum g (x - mean); nullptr if no sums are needed
  A *scale, *factor, *constant, *dweight, *dbias;
  int64_t rows;
  bool training;
  SACCADE_HD void operator()(int64_t c) const {
    scale[c] = weight[c] * rstd[c];
    factor[c] = constant[c] = A(0);
    if (!s1) return;
    if (training && rows > 0) {
      A n = static_cast<A>(rows);
      factor[c] = -scale[c] * rstd[c] * rstd[c] * (s2[c] / n);
      constant[c] = -scale[c] * (s1[c] / n);
    }
    if (dweight) dweight[c] = s2[c] * rstd[c];
    if (dbias) dbias[c] = s1[c];
  }
};

template <class A>
struct ScaleOnly {
  const A *weight, *rstd;
  A* scale;
  SACCADE_HD void operator()(int64_t c) const { scale[c] = weight[c] * rstd[c]; }
};

void forward_generic(const Tensor& x, const Tensor& weight, const Tensor& bias, const BatchNormParams& p,
                     Tensor& running_mean, Tensor& running_var, Tensor& y, Tensor& mean, Tensor& rstd) {
  dispatch_float(x.dtype(), "batch_norm", [&]<class T>() {
    using A = acc_t<T>;
    NormView v{1, x.dim(0), x.dim(1)};
    bool batch = p.training && v.S > 0;
    Tensor mu, m2;
    if (batch) {
      mu = Tensor::empty({v.C}, DType::kF64, x.device());
      m2 = mu.empty_like();
      channel_moments(v, x.data<T>(), mu, m2);
    }
    Tensor scale = mean.empty_like();
    Statistics<A> statistics{batch ? mu.data<double>() : nullptr,
                             batch ? m2.data<double>() : nullptr,
                             weight.data<A>(),
                             running_mean.data<A>(),
                             running_var.data<A>(),
                             mean.data<A>(),
                             rstd.data<A>(),
                             scale.data<A>(),
                             v.S,
                             p.momentum,
                             p.eps};
    for_each(v.C, statistics, 8);
    const A *m = mean.data<A>(), *s = scale.data<A>(), *b = bias.data<A>();
    with_activation(p.act, [&]<class F>() {
      for_each(apply_count(v), NormApply<F, T>{v, x.data<T>(), m, s, b, y.data<T>()},
               F::kCost * kApplyRows * v.C);
    });
  });
}

void backward_generic(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& mean, const Tensor& rstd, const BatchNormParams& p, Tensor& dx,
                      Tensor& dweight, Tensor& dbias) {
  NormView v{1, x.dim(0), x.dim(1)};
  Tensor work = Tensor::empty({3, v.C}, mean.dtype(), x.device()), s1, s2;
  if (dweight.defined() || dbias.defined() || p.training) {
    s1 = mean.empty_like();
    s2 = mean.empty_like();
  }
  auto run = [&]<class F, class T>() {
    using A = acc_t<T>;
    A *scale = work.data<A>(), *factor = scale + v.C, *constant = factor + v.C;
    if (s1.defined()) {
      for_each(v.C, ScaleOnly<A>{weight.data<A>(), rstd.data<A>(), scale});
      norm_gradient_sums<F, T>(v, dy.data<T>(), x.data<T>(), mean.data<A>(), scale, bias.data<A>(), s1, s2);
    }
    Coefficients<A> coefficients{data_or_null<A>(s1),
                                 data_or_null<A>(s2),
                                 weight.data<A>(),
                                 rstd.data<A>(),
                                 scale,
                                 factor,
                                 constant,
                                 data_or_null<A>(dweight),
                                 data_or_null<A>(dbias),
                                 v.S,
                                 p.training};
    for_each(v.C, coefficients, 8);
    if (!dx.defined()) return;
    NormBackward<F, T> g{v,      dy.data<T>(), x.data<T>(), mean.data<A>(), scale, bias.data<A>(),
                         factor, constant,     dx.data<T>()};
    for_each(apply_count(v), g, kApplyRows * v.C);
  };
  dispatch_float(x.dtype(), "batch_norm", [&]<class T>() {
    with_activation(p.act, [&]<class F>() { run.template operator()<F, T>(); });
  });
}

SACCADE_REGISTER_KERNEL(batch_norm_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(batch_norm_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
