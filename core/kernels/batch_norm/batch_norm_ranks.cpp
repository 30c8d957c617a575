// Batch normalisation over the images of several processes: each computes the moments and sums of its own
// rows and joins those of all.
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

// Like the Coefficients of batch_norm.cpp, from s1 and s2 rstd of each process. index = channel
template <class A>
struct CoefficientsOfAll {
  const A *weight, *rstd, *sums;
  const double* rows;
  A *scale, *factor, *constant;
  int64_t ranks, C;
  SACCADE_HD void operator()(int64_t c) const {
    A s1 = 0, s2_rstd = 0;
    for (int64_t r = 0; r < ranks; ++r) {
      s1 += sums[(2 * r) * C + c];
      s2_rstd += sums[(2 * r + 1) * C + c];
    }
    scale[c] = weight[c] * rstd[c];
    factor[c] = constant[c] = A(0);
    if (rows[c] == 0) return;
    const A n = static_cast<A>(rows[c]);
    factor[c] = -scale[c] * rstd[c] * (s2_rstd / n);
    constant[c] = -scale[c] * (s1 / n);
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

void backward_of_all_generic(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const Tensor& mean, const Tensor& rstd, const Tensor& sums, const Tensor& rows,
                             Activation activation, Tensor& dx) {
  const NormView v{1, x.dim(0), x.dim(1)};
  Tensor work = Tensor::empty({3, v.C}, mean.dtype(), x.device());
  auto run = [&]<class F, class T>() {
    using A = acc_t<T>;
    A *scale = work.data<A>(), *factor = scale + v.C, *constant = factor + v.C;
    for_each(v.C,
             CoefficientsOfAll<A>{weight.data<A>(), rstd.data<A>(), sums.data<A>(), rows.data<double>(),
                                  scale, factor, constant, sums.dim(0), v.C},
             8 * sums.dim(0));
    for_each(apply_count(v),
             NormBackward<F, T>{v, dy.data<T>(), x.data<T>(), mean.data<A>(), scale, bias.data<A>(), factor,
                                constant, dx.data<T>()},
             kApplyRows * v.C);
  };
  dispatch_float(x.dtype(), "batch_norm", [&]<class T>() {
    with_activation(activation, [&]<class F>() { run.template operator()<F, T>(); });
  });
}

SACCADE_REGISTER_KERNEL(batch_norm_moments, &moments_generic);
SACCADE_REGISTER_KERNEL(batch_norm_join, &join_generic);
SACCADE_REGISTER_KERNEL(batch_norm_backward_of_all, &backward_of_all_generic);

}  // namespace
}  // namespace saccade::kernels
