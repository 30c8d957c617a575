// Attention on the GPU for f32 and bf16 heads of up to 128 channels: see attention_cuda_forward.h and
// attention_cuda_backward.h.
#include "core/kernels/attention/attention.h"

#include "core/kernels/attention/attention_cuda_backward.h"
#include "core/kernels/attention/attention_cuda_forward.h"

namespace saccade::kernels {
namespace {

using cuda::Mma, cuda::Stored;

int64_t head_size(const Tensor& q, const Tensor& v, const AttentionParams& params) {
  return std::max(q.dim(2), v.dim(2)) / params.heads;
}

void forward_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& bias,
                  const AttentionParams& params, Tensor& y, Tensor& lse) {
  if (lse.numel() == 0) return;
  cuda::dispatch_attention(q.dtype(), head_size(q, v, params), [&]<Mma kMma, int kD>() {
    AttentionHeads<Stored<kMma>> p(q, k, v, mask, bias, params);
    p.set_outputs(y, lse);
    cuda::launch_attention_forward<kMma, kD>(p);
  });
}

void backward_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& bias,
                   const AttentionParams& params, const Tensor& lse, const Tensor& dy, Tensor& dq, Tensor& dk,
                   Tensor& dv, Tensor& dbias) {
  if (q.dim(0) == 0) return;
  Tensor delta = lse.empty_like();
  cuda::dispatch_attention(q.dtype(), head_size(q, v, params), [&]<Mma kMma, int kD>() {
    AttentionHeads<Stored<kMma>> p(q, k, v, mask, bias, params);
    p.set_gradients(lse, delta, dy, dq, dk, dv, dbias);
    cuda::launch_attention_backward<kMma, kD>(p);
  });
}

template <class... A>
bool supported(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, const Tensor&,
               const AttentionParams& params, const A&...) {
  // [&]: without a capture it would also be a pointer to a function, which nvcc refuses.
  return cuda::dispatch_attention(q.dtype(), head_size(q, v, params), [&]<Mma kMma, int kD>() {});
}

SACCADE_REGISTER_TUNED_KERNEL(attention_forward, Device::kCuda, &forward_cuda, &supported);
SACCADE_REGISTER_TUNED_KERNEL(attention_backward, Device::kCuda, &backward_cuda, &supported);

}  // namespace
}  // namespace saccade::kernels
