// Window attention forward on the GPU: the kernel of attention_forward.h over a WindowProblem, for f32 and
// bf16 heads of up to 128 channels. A block takes a head of one window (of more than 64 tokens: 64 of its
// queries), so that all its reads of the map are rows of the head.
#include "core/kernels/window_attention/window_attention.h"

#include "core/kernels/attention/attention_cuda_forward.h"
#include "core/kernels/window_attention/window_attention_cuda_problem.h"

namespace saccade::kernels {
namespace {

using cuda::Math;

template <Math kMath, int kD, class T>
bool launch_forward(const cuda::WindowProblem<T>& p) {
  using Shape = cuda::ForwardShape<kMath, kD>;
  size_t shared = cuda::forward_shared_bytes<kMath, kD>() + p.head_bytes();
  if (shared > cuda::kWindowSharedBytes) return false;
  auto blocks = static_cast<unsigned>(p.heads() * ceil_div(p.queries, Shape::kRows));
  cuda::launch("attention_forward_tiles", &cuda::attention_forward_tiles<kMath, kD, cuda::WindowProblem<T>>,
               dim3(blocks), dim3(Shape::kThreads), shared, p);
  return true;
}

void forward_cuda(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                  const WindowParams& params, Tensor& y, Tensor& log_sum) {
  if (log_sum.numel() == 0) return;
  auto run = [&]<Math kMath>() {
    using T = cuda::Stored<kMath>;
    cuda::WindowProblem<T> p(qkv, table, padding, mask, params);
    p.y = y.data<T>();
    p.log_sum = log_sum.data<float>();
    bool done = false;
    cuda::dispatch_head_size(p.D, [&]<int kD>() { done = launch_forward<kMath, kD>(p); });
    return done;
  };
  if (!cuda::dispatch_math(qkv.dtype(), run))
    window_attention_forward.generic(qkv, table, padding, mask, params, y, log_sum);
}

SACCADE_REGISTER_TUNED_KERNEL(window_attention_forward, Device::kCuda, &forward_cuda);

}  // namespace
}  // namespace saccade::kernels
