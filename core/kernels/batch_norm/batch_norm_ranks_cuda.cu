// Batch norm over the images of several processes: the passes over all rows of this process, with the kernels
// of core/kernels/common/channel_norm_cuda.h. Joining the processes' moments takes a few numbers per channel
// and is done in batch_norm_ranks.cpp.
#include "core/kernels/batch_norm/batch_norm.h"
#include "core/kernels/common/channel_norm_cuda.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

struct OwnMoments {
  double* moments;
  int64_t rows, C;
  __device__ void operator()(int64_t c, double mean, double m2) const {
    moments[c] = static_cast<double>(rows);
    moments[C + c] = mean;
    moments[2 * C + c] = m2;
  }
};

// Like batch_norm_coefficients, from the processes' sums of g and of g (x - mean) rstd, in their order.
__global__ void __launch_bounds__(kColumnThreads)
    coefficients_of_all(const float* sums, int64_t ranks, const double* rows, const float* weight,
                        const float* rstd, float* factor, float* constant, int64_t columns) {
  int64_t c = static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x;
  if (c >= columns) return;
  float s1 = 0, s2_rstd = 0;
  for (int64_t r = 0; r < ranks; ++r) {
    s1 += sums[2 * r * columns + c];
    s2_rstd += sums[(2 * r + 1) * columns + c];
  }
  float scale = weight[c] * rstd[c], n = static_cast<float>(rows[c]);
  factor[c] = n > 0 ? -scale * rstd[c] * (s2_rstd / n) : 0;
  constant[c] = n > 0 ? -scale * (s1 / n) : 0;
}

void moments_cuda(const Tensor& x, Tensor& moments) {
  NormSizes v{1, x.dim(0), x.dim(1), x.dim(1)};
  dispatch_packs(x.dtype(), rows_fit_packs(v.C, x), [&]<class T, int kPack>() {
    norm_moments<T, kPack>(v, x.data<T>(), OwnMoments{moments.data<double>(), v.S, v.C});
  });
}

void backward_of_all_cuda(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const Tensor& mean, const Tensor& rstd, const Tensor& sums, const Tensor& rows,
                          Activation activation, Tensor& dx) {
  NormSizes v{1, x.dim(0), x.dim(1), x.dim(1)};
  Tensor work = Tensor::empty({2, v.C}, DType::kF32, Device::kCuda);
  float *factor = work.data<float>(), *constant = factor + v.C;
  launch("coefficients_of_all", &coefficients_of_all, {ceil_div(v.C, kColumnThreads), kColumnThreads},
         sums.data<float>(), sums.dim(0), rows.data<double>(), weight.data<float>(), rstd.data<float>(),
         factor, constant, v.C);
  auto run = [&]<class F, class T, int kPack>() {
    launch_norm_backward<F, T, kPack>(v, dy.data<T>(), x.data<T>(), mean.data<float>(), rstd.data<float>(),
                                      weight.data<float>(), bias.data<float>(), factor, constant,
                                      dx.data<T>());
  };
  dispatch_packs(x.dtype(), rows_fit_packs(v.C, x, dy, dx), [&]<class T, int kPack>() {
    with_activation(activation, [&]<class F>() { run.template operator()<F, T, kPack>(); });
  });
}

SACCADE_REGISTER_TUNED_KERNEL(batch_norm_moments, Device::kCuda, &moments_cuda, &takes_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(batch_norm_backward_of_all, Device::kCuda, &backward_of_all_cuda,
                              &takes_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
