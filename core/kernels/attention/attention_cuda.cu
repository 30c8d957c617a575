// Attention on the GPU for f32 and bf16 heads of up to 128 channels: see attention_cuda_forward.h and
// attention_cuda_backward.h.
#include "core/kernels/attention/attention.h"

#include "core/kernels/attention/attention_cuda_backward_tiles.h"
#include "core/kernels/attention/attention_cuda_forward.h"

namespace saccade::kernels {
namespace {

using cuda::Mma, cuda::Stored;

// delta of a row as dot(y, dy), computed by kDeltaLanes neighbouring threads.
constexpr int kDeltaLanes = 4, kDeltaThreads = 256;
template <class T>
__global__ void __launch_bounds__(kDeltaThreads) attention_deltas(AttentionHeads<T> p) {
  int64_t i = (static_cast<int64_t>(blockIdx.x) * kDeltaThreads + threadIdx.x) / kDeltaLanes;
  int sub = static_cast<int>(threadIdx.x) % kDeltaLanes;
  bool valid = i < int64_t{p.N} * p.H * p.queries;
  int64_t number = valid ? i / p.queries : 0;
  auto head = p.head(number);
  int q = static_cast<int>(valid ? i - number * p.queries : 0);
  const T *y = p.output(head, q), *dy = p.dy(head, q);
  float sum = 0;
  constexpr int kPack = cuda::kPackWidth<T>;
  if (p.packs) {
    for (int d = sub * kPack; d < p.Dv; d += kDeltaLanes * kPack) {
      float a[kPack], b[kPack];
      cuda::load_floats<kPack>(y + d, a);
      cuda::load_floats<kPack>(dy + d, b);
#pragma unroll
      for (int e = 0; e < kPack; ++e) sum = math::fma(a[e], b[e], sum);
    }
  } else {
    for (int d = sub; d < p.Dv; d += kDeltaLanes)
      sum = math::fma(static_cast<float>(y[d]), static_cast<float>(dy[d]), sum);
  }
  sum = cuda::warp_sum<kDeltaLanes>(sum);
  if (valid && sub == 0) p.delta[i] = sum;
}

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
                   const AttentionParams& params, const Tensor& lse, const Tensor& y, const Tensor& dy,
                   Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias) {
  if (q.dim(0) == 0) return;
  Tensor delta = lse.empty_like();
  cuda::dispatch_attention(q.dtype(), head_size(q, v, params), [&]<Mma kMma, int kD>() {
    AttentionHeads<Stored<kMma>> p(q, k, v, mask, bias, params);
    p.set_gradients(lse, delta, dy, dq, dk, dv, dbias);
    // A single tile of keys stays in shared memory, so that the sum of weights times gradients is available
    // there, and more accurate.
    if (y.defined() && p.keys > cuda::BackwardShape<kMma, kD>::kColumns) {
      p.y = const_cast<Stored<kMma>*>(y.data<Stored<kMma>>());  // it is only read
      p.deltas_known = true;
      cuda::find_accesses(p);
      cuda::launch("attention_deltas", &attention_deltas<Stored<kMma>>,
                   {ceil_div(delta.numel() * kDeltaLanes, kDeltaThreads), kDeltaThreads}, p);
      // The gradient of the bias is left to the kernels whose blocks own queries or pairs.
      if (p.wants_dq() && p.wants_key_gradients() && !p.dpairs && p.queries > 0 &&
          cuda::fits_five_products<kMma, kD>(p))
        return cuda::launch_five_products<kMma, kD>(p);
    }
    cuda::launch_attention_backward<kMma, kD>(p);
  });
}

template <class... A>
bool supported(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, const Tensor&,
               const AttentionParams& params, const A&...) {
  // [&]: without a capture the lambda would convert to a function pointer, which nvcc refuses.
  return cuda::dispatch_attention(q.dtype(), head_size(q, v, params), [&]<Mma kMma, int kD>() {});
}

SACCADE_REGISTER_TUNED_KERNEL(attention_forward, Device::kCuda, &forward_cuda, &supported);
SACCADE_REGISTER_TUNED_KERNEL(attention_backward, Device::kCuda, &backward_cuda, &supported);

}  // namespace
}  // namespace saccade::kernels
