// Attention forward on the GPU (see attention_forward.h) for f32 and bf16 heads of up to 128 channels.
#include "core/kernels/attention/attention.h"

#include "core/kernels/attention/attention_cuda_forward.h"
#include "core/kernels/attention/attention_cuda_problem.h"

namespace saccade::kernels {
namespace {

using cuda::Mma;

template <Mma kMma, int kD, class T>
void launch_forward(const cuda::AttentionProblem<T>& p) {
  using Shape = cuda::ForwardShape<kMma, kD>;
  auto blocks = static_cast<unsigned>(p.heads() * ceil_div(p.queries, Shape::kRows));
  cuda::launch("attention_forward_tiles", &cuda::attention_forward_tiles<kMma, kD, cuda::AttentionProblem<T>>,
               dim3(blocks), dim3(Shape::kThreads), cuda::forward_shared_bytes<kMma, kD>(), p);
}

void forward_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& bias,
                  const AttentionParams& params, Tensor& y, Tensor& lse) {
  if (lse.numel() == 0) return;
  cuda::dispatch_attention(q.dtype(), cuda::head_size(q, v, params), [&]<Mma kMma, int kD>() {
    using T = cuda::Stored<kMma>;
    cuda::AttentionProblem<T> p(q, k, v, mask, bias, params);
    p.y = y.data<T>();
    p.lse = lse.data<float>();
    launch_forward<kMma, kD>(p);
  });
}

SACCADE_REGISTER_TUNED_KERNEL(attention_forward, Device::kCuda, &forward_cuda, &cuda::attention_supported);

}  // namespace
}  // namespace saccade::kernels
