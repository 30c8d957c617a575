// Deformable attention in f32 and bf16 with the kernels of sample_gather_cuda.h and sample_scatter_cuda.h.
#include "core/kernels/common/sample_gather_cuda.h"
#include "core/kernels/common/sample_scatter_cuda.h"
#include "core/kernels/ms_deform_attn/ms_deform_source.h"

namespace saccade::kernels {
namespace {

using Source = MsDeformSource<float, cuda::LaneAccess>;

void forward_cuda(const Tensor& value, const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                  const FeatureLevels& levels, Tensor& y) {
  Source source(reference, offsets, logits);
  SampleShape s = shape_of_samples(value, offsets, levels);
  dispatch_dtype<float, bf16>(value.dtype(), "ms_deform_attn",
                              [&]<class T>() { cuda::launch_gather<T>(source, s, value, y); });
}

void backward_cuda(const Tensor& value, const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                   const FeatureLevels& levels, const Tensor& dy, Tensor& dvalue, Tensor& dreference,
                   Tensor& doffsets, Tensor& dlogits) {
  Source source(reference, offsets, logits);
  SampleShape s = shape_of_samples(value, offsets, levels);
  dispatch_dtype<float, bf16>(value.dtype(), "ms_deform_attn", [&]<class T>() {
    with_reference_gradient(source, s, dreference, doffsets, dlogits,
                            [&](const auto& gradients, bool wanted) {
                              cuda::samples_backward<T>(source, gradients, wanted, s, value, dy, dvalue);
                            });
  });
}

// `result` is y or dy.
bool points_fit(const Tensor& value, const Tensor& offsets, const FeatureLevels& levels,
                const Tensor& result) {
  return result.numel() > 0 && value.dtype() != DType::kF64 && cuda::packs_fit<2>(offsets.data<float>(), 0) &&
         cuda::indices_fit(offsets.dim(0), offsets.dim(1), offsets.dim(2), value.dim(3),
                           levels.size() * offsets.dim(4), levels.tokens());
}
bool forward_supported(const Tensor& value, const Tensor&, const Tensor& offsets, const Tensor&,
                       const FeatureLevels& levels, const Tensor& y) {
  return points_fit(value, offsets, levels, y);
}
bool backward_supported(const Tensor& value, const Tensor&, const Tensor& offsets, const Tensor&,
                        const FeatureLevels& levels, const Tensor& dy, const Tensor&, const Tensor&,
                        const Tensor&, const Tensor&) {
  return points_fit(value, offsets, levels, dy) &&
         cuda::scatter_fits(shape_of_samples(value, offsets, levels));
}

SACCADE_REGISTER_TUNED_KERNEL(ms_deform_attn_forward, Device::kCuda, &forward_cuda, &forward_supported);
SACCADE_REGISTER_TUNED_KERNEL(ms_deform_attn_backward, Device::kCuda, &backward_cuda, &backward_supported);

}  // namespace
}  // namespace saccade::kernels
