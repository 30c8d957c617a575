#include "core/kernels/ms_deform_attn/ms_deform_projected.h"

#include "core/kernels/elementwise/elementwise.h"
#include "core/kernels/linear/linear.h"

namespace saccade::kernels {
namespace {

void projected_generic(const Tensor& tokens, const Tensor& padding, const Tensor& w, const Tensor& bias,
                       const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                       const FeatureLevels& levels, Tensor& y) {
  const int64_t N = tokens.dim(0), S = tokens.dim(1), M = offsets.dim(2), channels = w.dim(0);
  Tensor rows = Tensor::empty({N * S, channels}, tokens.dtype(), tokens.device());
  linear_forward(tokens.reshape({N * S, tokens.dim(2)}), w, bias, Activation::kNone, rows);
  if (padding.defined()) masked_fill(rows, padding.reshape({N * S, 1}), 0, rows);
  ms_deform_attn_forward(rows.reshape({N, S, M, channels / M}), reference, offsets, logits, levels, y);
}

SACCADE_REGISTER_KERNEL(ms_deform_projected, &projected_generic);

}  // namespace
}  // namespace saccade::kernels
