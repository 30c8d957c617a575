// Forward of deformable attention in f32 and bf16: see sample_gather.h.
#include "core/kernels/ms_deform_attn/ms_deform_attn.h"

#include "core/kernels/ms_deform_attn/ms_deform_attn_cuda_source.h"

namespace saccade::kernels {
namespace {

void forward_cuda(const Tensor& value, const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                  const FeatureLevels& levels, Tensor& y) {
  if (y.numel() == 0 || !cuda::MsDeformSource::fits(value, offsets, levels))
    return ms_deform_attn_forward.generic(value, reference, offsets, logits, levels, y);
  auto source = cuda::MsDeformSource::of(reference, offsets, logits);
  auto shape = cuda::MsDeformSource::shape_of(value, offsets, levels);
  if (value.dtype() == DType::kBF16) {
    cuda::launch_gather<bf16>(source, shape, value, y);
  } else {
    cuda::launch_gather<float>(source, shape, value, y);
  }
}

SACCADE_REGISTER_TUNED_KERNEL(ms_deform_attn_forward, Device::kCuda, &forward_cuda);

}  // namespace
}  // namespace saccade::kernels
