// Batch norm: core/kernels/common/channel_norm_cuda.h with one group per channel, the running statistics and
// the activation.
#include "core/kernels/batch_norm/batch_norm.h"

#include "core/kernels/common/channel_norm_cuda.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

struct BatchStatistics {
  float *running_mean, *running_var, *mean, *rstd;
  double rows, momentum, eps;
  __device__ void operator()(int64_t c, double mu, double m2) const {
    double variance = m2 / rows, unbiased = rows > 1 ? m2 / (rows - 1) : variance;
    running_mean[c] =
        static_cast<float>((1 - momentum) * static_cast<double>(running_mean[c]) + momentum * mu);
    running_var[c] =
        static_cast<float>((1 - momentum) * static_cast<double>(running_var[c]) + momentum * unbiased);
    mean[c] = static_cast<float>(mu);
    rstd[c] = static_cast<float>(1 / std::sqrt(variance + eps));
  }
};

// With fixed statistics, uses the running ones.
__global__ void __launch_bounds__(kColumnThreads)
    fixed_statistics(const float* running_mean, const float* running_var, double eps, float* mean,
                     float* rstd, int64_t columns) {
  int64_t c = static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x;
  if (c >= columns) return;
  mean[c] = running_mean[c];
  rstd[c] = static_cast<float>(1 / std::sqrt(static_cast<double>(running_var[c]) + eps));
}

// Computes the coefficients of the backward from s1 = sum g and s2 = sum g (x - mean) (null if not needed);
// dweight and dbias may be null.
__global__ void __launch_bounds__(kColumnThreads)
    batch_norm_coefficients(const float* s1, const float* s2, const float* weight, const float* rstd,
                            bool training, float rows, float* factor, float* constant, float* dweight,
                            float* dbias, int64_t columns) {
  int64_t c = static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x;
  if (c >= columns) return;
  float scale = weight[c] * rstd[c];
  factor[c] = training ? -scale * rstd[c] * rstd[c] * (s2[c] / rows) : 0;
  constant[c] = training ? -scale * (s1[c] / rows) : 0;
  if (dweight) dweight[c] = s2[c] * rstd[c];
  if (dbias) dbias[c] = s1[c];
}

void forward_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias, const BatchNormParams& p,
                  Tensor& running_mean, Tensor& running_var, Tensor& y, Tensor& mean, Tensor& rstd) {
  NormSizes v{1, x.dim(0), x.dim(1), x.dim(1)};
  float *m = mean.data<float>(), *r = rstd.data<float>();
  float *rm = running_mean.data<float>(), *rv = running_var.data<float>();
  dispatch_packs(x.dtype(), rows_fit_packs(v.C, x, y), [&]<class T, int kPack>() {
    if (p.training)
      norm_moments<T, kPack>(v, x.data<T>(),
                             BatchStatistics{rm, rv, m, r, static_cast<double>(v.S), p.momentum, p.eps});
    else
      launch("fixed_statistics", &fixed_statistics, {ceil_div(v.C, kColumnThreads), kColumnThreads}, rm, rv,
             p.eps, m, r, v.C);
    with_activation(p.act, [&]<class F>() {
      launch_norm_apply<F, T, kPack>(v, x.data<T>(), m, r, weight.data<float>(), bias.data<float>(),
                                     y.data<T>());
    });
  });
}

void backward_cuda(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Tensor& mean, const Tensor& rstd, const BatchNormParams& p, Tensor& dx,
                   Tensor& dweight, Tensor& dbias) {
  NormSizes v{1, x.dim(0), x.dim(1), x.dim(1)};
  const float *m = mean.data<float>(), *r = rstd.data<float>(), *w = weight.data<float>(),
              *b = bias.data<float>();
  Tensor work = Tensor::empty({4, v.C}, DType::kF32, Device::kCuda);
  float *s1 = work.data<float>(), *s2 = s1 + v.C, *factor = s2 + v.C, *constant = factor + v.C;
  bool sums = dweight.defined() || dbias.defined() || p.training;
  auto run = [&]<class F, class T, int kPack>() {
    const T *pd = dy.data<T>(), *px = x.data<T>();
    if (sums)
      sum_columns<kPack, 2>(ColumnTiles(1, v.S, v.C, kPack),
                            NormGradientSums<F, T, kPack>{v, pd, px, m, r, w, b}, 1.0, s1, s2);
    launch("batch_norm_coefficients", &batch_norm_coefficients,
           {ceil_div(v.C, kColumnThreads), kColumnThreads}, sums ? s1 : nullptr, sums ? s2 : nullptr, w, r,
           p.training, static_cast<float>(v.S), factor, constant, data_or_null<float>(dweight),
           data_or_null<float>(dbias), v.C);
    if (dx.defined())
      launch_norm_backward<F, T, kPack>(v, pd, px, m, r, w, b, factor, constant, dx.data<T>());
  };
  dispatch_packs(x.dtype(), rows_fit_packs(v.C, x, dy, dx), [&]<class T, int kPack>() {
    with_activation(p.act, [&]<class F>() { run.template operator()<F, T, kPack>(); });
  });
}

SACCADE_REGISTER_TUNED_KERNEL(batch_norm_forward, Device::kCuda, &forward_cuda, &takes_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(batch_norm_backward, Device::kCuda, &backward_cuda, &takes_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
