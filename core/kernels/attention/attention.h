// Scaled-dot-product attention of several heads without storing the weights: forward keeps one number a row.
//
// Shapes: q [N, Q, E], k [N, S, E], v [N, S, Ev], y [N, Q, Ev], the channels split over `heads`;
// key_padding_mask bool [N, S] or undefined, true = ignored; bias [1 or N, 1 or heads, Q, S] or undefined,
// added to the scaled scores; lse [N, heads, Q] = log of the sum of exp(score) of a row, -inf where every
// key is masked (such a row of y is 0). q, k, v, y are of one dtype (f32, bf16 or f64); bias and lse are
// f64 with f64 values and f32 otherwise. All contiguous, but that on the GPU rows of q,
// k and v may be apart (has_even_rows).
#pragma once

#include "core/runtime/kernel.h"
#include "core/tensor/philox.h"

namespace saccade::kernels {

// Whether the rows of [N, R, E] are at one distance from each other, as those of a slice of channels do.
inline bool has_even_rows(const Tensor& t) {
  const Shape& at = t.strides();
  return at[2] == 1 && (t.dim(0) == 1 || at[0] == t.dim(1) * at[1]);
}

struct AttentionParams {
  int64_t heads = 1;
  double scale = 1;            // of the scores
  double dropout = 0;          // probability that a weight is zeroed; the others grow by 1 / (1 - dropout)
  uint64_t key = 0, call = 0;  // Philox stream of the dropout mask, which is redrawn in backward
  int64_t first_row = 0;       // of the mask, not 0 where the tensors are a part of larger ones
};

// The dropout mask. Rows count as in lse: (n * heads + h) * Q + q.
struct Dropout {
  float probability, factor;  // factor: of the weights that stay
  uint64_t key, call;
  int64_t first_row;

  explicit Dropout(const AttentionParams& p)
      : probability(static_cast<float>(p.dropout)),
        factor(static_cast<float>(1 / (1 - p.dropout))),
        key(p.key),
        call(p.call),
        first_row(p.first_row) {}
  // The numbers of weights 4 * block + 0..3 of a row of `keys` keys, and what one means for its weight.
  SACCADE_HD Philox draw(int64_t row, int64_t block, int64_t keys) const {
    return Philox::generate(key, call, static_cast<uint64_t>((first_row + row) * ((keys + 3) / 4) + block));
  }
  SACCADE_HD bool drops(uint32_t number) const { return uniform_from_bits(number) < probability; }
  // What weight s of a row is multiplied by.
  SACCADE_HD float factor_of(int64_t row, int64_t s, int64_t keys) const {
    return drops(draw(row, s / 4, keys).x[s % 4]) ? 0.0f : factor;
  }
};

inline Kernel<void(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_padding_mask,
                   const Tensor& bias, const AttentionParams& params, Tensor& y, Tensor& lse)>
    attention_forward{"attention_forward"};

// Gradients of dot(y, dy); undefined outputs are skipped. The weights are recomputed from lse. y may be
// undefined; it saves the GPU a pass over the keys.
// Deterministic: dk and dv of a head are summed by one owner in query order.
inline Kernel<void(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_padding_mask,
                   const Tensor& bias, const AttentionParams& params, const Tensor& lse, const Tensor& y,
                   const Tensor& dy, Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias)>
    attention_backward{"attention_backward"};

}  // namespace saccade::kernels
