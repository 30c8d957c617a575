// Group norm: moments of the columns, joined per group; see core/kernels/common/channel_norm_cuda.h.
#include "core/kernels/group_norm/group_norm.h"

#include "core/kernels/common/channel_norm_cuda.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

struct GroupStatistics {
  float *mean, *rstd;
  double count, eps;
  __device__ void operator()(int64_t group, double mu, double m2) const {
    mean[group] = static_cast<float>(mu);
    rstd[group] = static_cast<float>(1 / std::sqrt(m2 / count + eps));
  }
};

// Computes a group's factor and constant and a channel's gradients, each of which may be null, from s1 = sum
// g and s2 = sum g (x - mean), [B, C]. One thread per group, then one per channel.
__global__ void __launch_bounds__(kColumnThreads)
    group_norm_coefficients(NormSizes v, const float* s1, const float* s2, const float* weight,
                            const float* rstd, float* factor, float* constant, float* dweight, float* dbias) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x, size = v.C / v.groups;
  if (i < v.B * v.groups) {
    int64_t b = i / v.groups, first = b * v.C + i % v.groups * size, c0 = i % v.groups * size;
    float a = 0, d = 0, count = static_cast<float>(v.S * size), r = rstd[i];
    for (int64_t c = 0; c < size; ++c) {
      a += weight[c0 + c] * s1[first + c];
      d += weight[c0 + c] * s2[first + c];
    }
    factor[i] = -r * r * r * (d / count);
    constant[i] = -r * (a / count);
    return;
  }
  int64_t c = i - v.B * v.groups;
  if (c >= v.C) return;
  float w = 0, b = 0;
  for (int64_t n = 0; n < v.B; ++n) {
    w += s2[n * v.C + c] * rstd[v.group_of(n, c)];
    b += s1[n * v.C + c];
  }
  if (dweight) dweight[c] = w;
  if (dbias) dbias[c] = b;
}

NormSizes sizes_of(const Tensor& x, const Tensor& mean) {
  return {x.dim(0), x.dim(1), x.dim(2), mean.dim(1)};
}

void forward_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                  Tensor& mean, Tensor& rstd) {
  NormSizes v = sizes_of(x, mean);
  float *m = mean.data<float>(), *r = rstd.data<float>();
  GroupStatistics statistics{m, r, static_cast<double>(v.S * (v.C / v.groups)), eps};
  dispatch_packs(x.dtype(), rows_fit_packs(v.C, x, y), [&]<class T, int kPack>() {
    norm_moments<T, kPack>(v, x.data<T>(), statistics);
    launch_norm_apply<Identity, T, kPack>(v, x.data<T>(), m, r, weight.data<float>(), bias.data<float>(),
                                          y.data<T>());
  });
}

void backward_cuda(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                   const Tensor& rstd, Tensor& dx, Tensor& dweight, Tensor& dbias) {
  NormSizes v = sizes_of(x, mean);
  const float *m = mean.data<float>(), *r = rstd.data<float>(), *w = weight.data<float>();
  Tensor sums = Tensor::empty({2, v.B, v.C}, DType::kF32, Device::kCuda);
  Tensor coefficients = Tensor::empty({2, v.B, v.groups}, DType::kF32, Device::kCuda);
  float *s1 = sums.data<float>(), *s2 = s1 + v.B * v.C;
  float *factor = coefficients.data<float>(), *constant = factor + v.B * v.groups;
  dispatch_packs(x.dtype(), rows_fit_packs(v.C, x, dy, dx), [&]<class T, int kPack>() {
    const T *pd = dy.data<T>(), *px = x.data<T>();
    sum_columns<kPack, 2>(ColumnTiles(v.B, v.S, v.C, kPack),
                          NormGradientSums<Identity, T, kPack>{v, pd, px, m, r, w, nullptr}, 1.0, s1, s2);
    launch("group_norm_coefficients", &group_norm_coefficients,
           {ceil_div(v.B * v.groups + v.C, kColumnThreads), kColumnThreads}, v, s1, s2, w, r, factor,
           constant, data_or_null<float>(dweight), data_or_null<float>(dbias));
    if (dx.defined())
      launch_norm_backward<Identity, T, kPack>(v, pd, px, m, r, w, nullptr, factor, constant, dx.data<T>());
  });
}

SACCADE_REGISTER_TUNED_KERNEL(group_norm_forward, Device::kCuda, &forward_cuda, &takes_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(group_norm_backward, Device::kCuda, &backward_cuda, &takes_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
