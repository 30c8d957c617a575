// Attention backward on the GPU (see attention_backward.h) for f32 and bf16 heads of up to 128 channels.
#include "core/kernels/attention/attention_cuda_backward.h"

#include "core/kernels/attention/attention_cuda_problem.h"

namespace saccade::kernels {
namespace {

using cuda::Mma;

template <Mma kMma, int kD, class T>
void launch_backward(const cuda::AttentionProblem<T>& p) {
  using Problem = cuda::AttentionProblem<T>;
  using Shape = cuda::BackwardShape<kMma, kD>;
  constexpr size_t kShared = cuda::BackwardShared<kMma, kD>::bytes();
  auto tiles = [](int rows, int tile) { return static_cast<unsigned>(ceil_div(rows, tile)); };
  auto heads = static_cast<unsigned>(p.heads());
  unsigned query_tiles = tiles(p.queries, Shape::kRows), key_tiles = tiles(p.keys, Shape::kRows);
  if (query_tiles > 0) {
    cuda::launch("attention_backward_queries", &cuda::attention_backward_queries<kMma, kD, Problem>,
                 dim3(heads * query_tiles), dim3(Shape::kThreads), kShared, p);
  }
  if (key_tiles > 0 && (p.dk || p.dv)) {
    cuda::launch("attention_backward_keys", &cuda::attention_backward_keys<kMma, kD, Problem>,
                 dim3(heads * key_tiles), dim3(Shape::kThreads), kShared, p);
  }
  bool one_member = p.groups() == p.heads();  // then the kernel over the queries has written it
  if (p.dpairs && !one_member && p.queries > 0 && p.keys > 0) {
    cuda::launch("attention_backward_pairs", &cuda::attention_backward_pairs<kMma, kD, Problem>,
                 dim3(tiles(p.keys, Shape::kColumns), query_tiles, static_cast<unsigned>(p.groups())),
                 dim3(Shape::kThreads), kShared, p);
  }
}

void backward_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& bias,
                   const AttentionParams& params, const Tensor& lse, const Tensor& dy, Tensor& dq, Tensor& dk,
                   Tensor& dv, Tensor& dbias) {
  if (q.dim(0) == 0) return;
  Tensor delta = lse.empty_like();
  cuda::dispatch_attention(q.dtype(), cuda::head_size(q, v, params), [&]<Mma kMma, int kD>() {
    using T = cuda::Stored<kMma>;
    cuda::AttentionProblem<T> p(q, k, v, mask, bias, params);
    p.dy_rows = dy.data<T>();
    p.packs = p.packs && cuda::packs_fit<cuda::kPackWidth<T>>(p.dy_rows, p.Dv);
    p.dq = data_or_null<T>(dq);
    p.dk = data_or_null<T>(dk);
    p.dv = data_or_null<T>(dv);
    p.dpairs = data_or_null<float>(dbias);
    p.lse = const_cast<float*>(lse.data<float>());
    p.delta = delta.data<float>();
    launch_backward<kMma, kD>(p);
  });
}

SACCADE_REGISTER_TUNED_KERNEL(attention_backward, Device::kCuda, &backward_cuda, &cuda::attention_supported);

}  // namespace
}  // namespace saccade::kernels
