// Backward of deformable attention in f32 and bf16. The points' gradients are those of sample_gather.h, the
// maps' those of sample_scatter.h; without determinism the first kernel adds to the maps as well, by float
// atomics.
#include "core/kernels/ms_deform_attn/ms_deform_attn.h"

#include "core/kernels/common/sample_scatter_cuda.h"
#include "core/kernels/copy/copy.h"
#include "core/kernels/ms_deform_attn/ms_deform_attn_cuda_source.h"
#include "core/tensor/execution.h"

namespace saccade::kernels {
namespace {

constexpr int kThreads = 128;

// dreference [N, Q, L, R]; a thread has one query and level and adds its heads and points in order.
__global__ void __launch_bounds__(kThreads)
    sum_reference_gradients(int64_t count, cuda::MsDeformSource source, int L, int M,
                            const float* __restrict__ dlocations, float* dreference) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  float sum[4] = {};
  for (int m = 0; m < M; ++m) {
    int64_t first = ((i / L * M + m) * L + i % L) * source.P;
    for (int64_t j = first; j < first + source.P; ++j) {
      auto d = cuda::load_pack<2>(dlocations + 2 * j), offset = cuda::load_pack<2>(source.offsets + 2 * j);
      sum[0] += d.x[0];
      sum[1] += d.x[1];
      sum[2] += d.x[0] * offset.x[0] * source.half;
      sum[3] += d.x[1] * offset.x[1] * source.half;
    }
  }
  for (int r = 0; r < source.R; ++r) dreference[i * source.R + r] = sum[r];
}

template <class T>
void backward_typed(const cuda::MsDeformSource& source, const cuda::SampleShape& s, const Tensor& value,
                    const Tensor& dy, Tensor& dvalue, Tensor& dreference, Tensor& doffsets, Tensor& dlogits) {
  Tensor dlocations, unordered;
  if (dreference.defined()) dlocations = Tensor::empty({s.N, s.Q, s.M, s.K, 2}, DType::kF32, Device::kCuda);
  if (dvalue.defined() && !execution().deterministic) unordered = cuda::zero_sums<T>(dvalue);
  if (dreference.defined() || doffsets.defined() || dlogits.defined() || unordered.defined())
    cuda::launch_point_gradients<T>(
        source,
        {data_or_null<float>(doffsets), data_or_null<float>(dlogits), data_or_null<float>(dlocations)}, s,
        value, dy, unordered);
  if (dreference.defined()) {
    int64_t count = int64_t{s.N} * s.Q * s.levels.count;
    cuda::launch("sum_reference_gradients", &sum_reference_gradients, cuda::grid_of(count, kThreads),
                 dim3(kThreads), 0, count, source, s.levels.count, s.M, data_or_null<float>(dlocations),
                 data_or_null<float>(dreference));
  }
  if (unordered.defined()) {
    if (!std::is_same_v<T, float>) copy(unordered, dvalue);
  } else if (dvalue.defined()) {
    cuda::scatter_samples<T>(source, s, dy, dvalue);
  }
}

void backward_cuda(const Tensor& value, const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                   const FeatureLevels& levels, const Tensor& dy, Tensor& dvalue, Tensor& dreference,
                   Tensor& doffsets, Tensor& dlogits) {
  auto source = cuda::MsDeformSource::of(reference, offsets, logits);
  auto shape = cuda::MsDeformSource::shape_of(value, offsets, levels);
  dispatch_dtype<float, bf16>(value.dtype(), "ms_deform_attn", [&]<class T>() {
    backward_typed<T>(source, shape, value, dy, dvalue, dreference, doffsets, dlogits);
  });
}
template <class... A>
bool supported(const Tensor& value, const Tensor&, const Tensor& offsets, const Tensor&,
               const FeatureLevels& levels, const Tensor& dy, const A&...) {
  return dy.numel() > 0 && cuda::MsDeformSource::fits(value, offsets, levels) &&
         cuda::scatter_fits(cuda::MsDeformSource::shape_of(value, offsets, levels));
}

SACCADE_REGISTER_TUNED_KERNEL(ms_deform_attn_backward, Device::kCuda, &backward_cuda, &supported);

}  // namespace
}  // namespace saccade::kernels
