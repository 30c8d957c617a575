// Single-source attention: see attention_generic.h.
#include "core/kernels/attention/attention.h"

#include "core/kernels/attention/attention_generic.h"

namespace saccade::kernels {
namespace {

void forward_generic(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                     const Tensor& bias, const AttentionParams& params, Tensor& y, Tensor& lse) {
  dispatch_float(q.dtype(), "attention", [&]<class T>() {
    AttentionHeads<T> p(q, k, v, mask, bias, params);
    p.set_outputs(y, lse);
    forward_of_heads(p);
  });
}

void backward_generic(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                      const Tensor& bias, const AttentionParams& params, const Tensor& lse, const Tensor&,
                      const Tensor& dy, Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias) {
  Tensor delta = lse.empty_like();
  dispatch_float(q.dtype(), "attention", [&]<class T>() {
    AttentionHeads<T> p(q, k, v, mask, bias, params);
    p.set_gradients(lse, delta, dy, dq, dk, dv, dbias);
    backward_of_heads(p);
  });
}

SACCADE_REGISTER_KERNEL(attention_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(attention_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
