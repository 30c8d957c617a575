// Forward of deformable attention in f32 and bf16: see sample_gather.h.
#include "core/kernels/ms_deform_attn/ms_deform_attn.h"

#include "core/kernels/ms_deform_attn/ms_deform_attn_cuda_source.h"

namespace saccade::kernels {
namespace {

void forward_cuda(const Tensor& value, const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                  const FeatureLevels& levels, Tensor& y) {
  auto source = cuda::MsDeformSource::of(reference, offsets, logits);
  auto shape = cuda::MsDeformSource::shape_of(value, offsets, levels);
  dispatch_dtype<float, bf16>(value.dtype(), "ms_deform_attn",
                              [&]<class T>() { cuda::launch_gather<T>(source, shape, value, y); });
}
bool supported(const Tensor& value, const Tensor&, const Tensor& offsets, const Tensor&,
               const FeatureLevels& levels, const Tensor& y) {
  return y.numel() > 0 && cuda::MsDeformSource::fits(value, offsets, levels);
}

SACCADE_REGISTER_TUNED_KERNEL(ms_deform_attn_forward, Device::kCuda, &forward_cuda, &supported);

}  // namespace
}  // namespace saccade::kernels
