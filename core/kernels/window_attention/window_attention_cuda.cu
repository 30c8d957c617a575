// Window attention forward on the GPU: the kernel of attention_cuda_forward.h over the heads of windows, for
// f32 and bf16 heads of up to 128 channels. A block takes a head of one window (64 of its queries if the
// window has more than 64 tokens), so that all its reads of the map are rows of the head.
#include "core/kernels/window_attention/window_attention_cuda.h"

#include "core/kernels/attention/attention_cuda_forward.h"

namespace saccade::kernels {
namespace {

using cuda::Mma;

void forward_cuda(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                  const WindowParams& params, Tensor& y, Tensor& lse) {
  if (lse.numel() == 0) return;
  cuda::dispatch_attention(qkv.dtype(), qkv.dim(3) / 3 / params.heads, [&]<Mma kMma, int kD>() {
    cuda::WindowTiles<cuda::Stored<kMma>> p(qkv, table, padding, mask, params);
    p.set_outputs(y, lse);
    cuda::launch_attention_forward<kMma, kD>(p);
  });
}

bool supported(const Tensor& qkv, const Tensor&, const Tensor&, const Tensor&, const WindowParams& params,
               const Tensor&, const Tensor&) {
  size_t bytes = cuda::window_head_bytes(params.window);
  auto add = [&]<Mma kMma, int kD>() { bytes += cuda::forward_shared_bytes<kMma, kD>(); };
  return cuda::dispatch_attention(qkv.dtype(), qkv.dim(3) / 3 / params.heads, add) &&
         bytes <= cuda::kWindowSharedBytes;
}

SACCADE_REGISTER_TUNED_KERNEL(window_attention_forward, Device::kCuda, &forward_cuda, &supported);

}  // namespace
}  // namespace saccade::kernels
