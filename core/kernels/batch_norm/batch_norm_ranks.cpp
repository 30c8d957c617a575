// Batch normalisation over the images of several processes: each knows its own columns' moments and sums, and joins those of all.
#include "core/kernels/batch_norm/batch_norm.h"
#include "core/kernels/common/channel_norm.h"

namespace saccade::kernels {
namespace {

struct PutMoments {  // index = channel
  const double *mean, *m2;
  double* moments;
  int64_t rows, C;
  SACCADE_HD void operator()(int64_t c) const {
    moments[c] = static_cast<double>(rows);
    moments[C + c] = rows > 0 ? mean[c] : 0;
    moments[2 * C + c] = rows > 0 ? m2[c] : 0;
  }
};

// Chan, Golub, LeVeque 1979, in the order of the processes. index = channel
template <class A>
struct JoinRanks {
  const double* moments;
  A *running_mean, *running_var, *mean, *variance;
  double* rows;
  int64_t ranks, C;
  double momentum;
  SACCADE_HD void operator()(int64_t c) const {
    double n = 0, mu = 0, m2 = 0;
    for (int64_t r = 0; r < ranks; ++r) {
      const double* m = moments + r * 3 * C + c;
      if (m[0] == 0) continue;
      const double all = n + m[0], apart = m[C] - mu;
      mu += apart * m[0] / all;
      m2 += m[2 * C] + apart * apart * n * m[0] / all;
      n = all;
    }
    rows[c] = n;
    const double biased = n > 0 ? m2 / n : 0;
    mean[c] = static_cast<A>(n > 0 ? mu : static_cast<double>(running_mean[c]));
    variance[c] = static_cast<A>(n > 0 ? biased : static_cast<double>(running_var[c]));
    if (n == 0) return;
    const double unbiased = n > 1 ? m2 / (n - 1) : biased;
    running_mean[c] = static_cast<A>((1 - momentum) * static_cast<double>(running_mean[c]) + momentum * mu);
    running_var[c] =
        static_cast<A>((1 - momentum) * static_cast<double>(running_var[c]) + momentum * unbiased);
  }
};

template <class T>
struct Spread {  // index = row
  using A = acc_t<T>;
  const T* x;
  const A *weight, *mean, *rstd, *sums;
  const double* rows;
  T* dx;
  int64_t ranks, C;
  SACCADE_HD void operator()(int64_t row) const {
    for (int64_t c = 0; c < C; ++c) {
      A s1 = 0, s2 = 0;
      for (int64_t r = 0; r < ranks; ++r) {
        s1 += sums[(2 * r) * C + c];
        s2 += sums[(2 * r + 1) * C + c];
      }
      const int64_t at = row * C + c;
      const A normal = (static_cast<A>(x[at]) - mean[c]) * rstd[c];
      dx[at] = T(static_cast<A>(dx[at]) - weight[c] * rstd[c] * (s1 + normal * s2) / static_cast<A>(rows[c]));
    }
  }
};

void moments_generic(const Tensor& x, Tensor& moments) {
  dispatch_float(x.dtype(), "batch_norm_moments", [&]<class T>() {
    const NormView v{1, x.dim(0), x.dim(1)};
    Tensor mean = Tensor::zeros({v.C}, DType::kF64, x.device()), m2 = mean.zeros_like();
    if (v.S > 0) channel_moments(v, x.data<T>(), mean, m2);
    for_each(v.C, PutMoments{mean.data<double>(), m2.data<double>(), moments.data<double>(), v.S, v.C}, 8);
  });
}

void join_generic(const Tensor& moments, double momentum, Tensor& running_mean, Tensor& running_var,
                  Tensor& mean, Tensor& variance, Tensor& rows) {
  dispatch_dtype<float, double>(mean.dtype(), "batch_norm_join", [&]<class A>() {
    for_each(
        moments.dim(2),
        JoinRanks<A>{moments.data<double>(), running_mean.data<A>(), running_var.data<A>(), mean.data<A>(),
                     variance.data<A>(), rows.data<double>(), moments.dim(0), moments.dim(2), momentum},
        8 * moments.dim(0));
  });
}

void spread_generic(const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                    const Tensor& sums, const Tensor& rows, Tensor& dx) {
  dispatch_float(x.dtype(), "batch_norm_spread", [&]<class T>() {
    using A = acc_t<T>;
    for_each(x.dim(0),
             Spread<T>{x.data<T>(), weight.data<A>(), mean.data<A>(), rstd.data<A>(), sums.data<A>(),
                       rows.data<double>(), dx.data<T>(), sums.dim(0), x.dim(1)},
             8 * x.dim(1));
  });
}

SACCADE_REGISTER_KERNEL(batch_norm_moments, &moments_generic);
SACCADE_REGISTER_KERNEL(batch_norm_join, &join_generic);
SACCADE_REGISTER_KERNEL(batch_norm_spread, &spread_generic);

}  // namespace
}  // namespace saccade::kernels
