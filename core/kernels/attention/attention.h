// Scaled-dot-product attention of several heads without storing the weights: forward keeps one number a row.
//
// Shapes: q [N, Q, E], k [N, S, E], v [N, S, Ev], y [N, Q, Ev], the channels split over `heads`;
// key_padding_mask bool [N, S] or undefined, true = ignored; bias [1 or N, 1 or heads, Q, S] or undefined,
// added to the scaled scores; lse [N, heads, Q] = log of the sum of exp(score) of a row, -inf where every
// key is masked (such a row of y is 0). q, k, v, y are of one dtype (f32, bf16 or f64); bias and lse are
// f64 with f64 values and f32 otherwise. All contiguous.
#pragma once

#include "core/runtime/kernel.h"
#include "core/tensor/philox.h"

namespace saccade::kernels {

struct AttentionParams {
  int64_t heads = 1;
  double scale = 1;            // of the scores
  double dropout = 0;          // probability that a weight is zeroed; the others grow by 1 / (1 - dropout)
  uint64_t key = 0, call = 0;  // Philox stream of the dropout mask, which is redrawn in backward

  // Factor of weight s in row (n * heads + h) * Q + q, of `keys` keys.
  SACCADE_HD float dropout_factor(int64_t row, int64_t s, int64_t keys) const {
    uint64_t block = static_cast<uint64_t>(row * ((keys + 3) / 4) + s / 4);
    float u = uniform_from_bits(Philox::generate(key, call, block).x[s % 4]);
    return u < static_cast<float>(dropout) ? 0.0f : static_cast<float>(1 / (1 - dropout));
  }
};

inline Kernel<void(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_padding_mask,
                   const Tensor& bias, const AttentionParams& params, Tensor& y, Tensor& lse)>
    attention_forward{"attention_forward"};

// Gradients of dot(y, dy); undefined outputs are skipped. The weights are recomputed from lse.
// Deterministic: dk and dv of a head are summed by one owner in query order.
inline Kernel<void(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_padding_mask,
                   const Tensor& bias, const AttentionParams& params, const Tensor& lse, const Tensor& dy,
                   Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias)>
    attention_backward{"attention_backward"};

}  // namespace saccade::kernels
