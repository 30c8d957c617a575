// Scaled-dot-product attention of several heads without stored weights: forward keeps one number per row.
//
// Shapes: q [N, Q, E], k [N, S, E], v [N, S, Ev], y [N, Q, Ev], the channels split over `heads`;
// key_padding_mask bool [N, S] or undefined, true = ignored; bias [1 or N, 1 or heads, Q, S] or undefined,
// added to the scaled scores; lse [N, heads, Q] = log of the sum of exp(score) of a row, -inf if every key is
// masked (such a row of y is 0). q, k, v, y have one dtype (f32, bf16 or f64); bias and lse are f64 with f64
// values and f32 otherwise. All are contiguous, but on the GPU the rows of q, k and v may have gaps between
// them (has_even_rows).
#pragma once

#include "core/runtime/kernel.h"
#include "core/tensor/philox.h"

namespace saccade::kernels {

// Returns whether the rows of [N, R, E] are equally spaced, as those of a slice of channels are.
inline bool has_even_rows(const Tensor& t) {
  const Shape& at = t.strides();
  return at[2] == 1 && (t.dim(0) == 1 || at[0] == t.dim(1) * at[1]);
}

struct AttentionParams {
  int64_t heads = 1;
  double scale = 1;            // of the scores
  double dropout = 0;          // probability that a weight is zeroed; the others grow by 1 / (1 - dropout)
  uint64_t key = 0, call = 0;  // Philox stream of the dropout mask, which is redrawn in backward
  int64_t first_row = 0;       // first row of the mask; not 0 if the tensors are a part of larger ones
};

// The dropout mask. Rows are numbered as in lse: (n * heads + h) * Q + q.
struct Dropout {
  float probability, factor;  // factor: of the weights that are kept
  uint64_t key, call;
  int64_t first_row;

  explicit Dropout(const AttentionParams& p)
      : probability(static_cast<float>(p.dropout)),
        factor(static_cast<float>(1 / (1 - p.dropout))),
        key(p.key),
        call(p.call),
        first_row(p.first_row) {}
  // The random numbers of weights 4 * block + 0..3 in a row of `keys` keys; drops() interprets one.
  SACCADE_HD Philox draw(int64_t row, int64_t block, int64_t keys) const {
    return Philox::generate(key, call, static_cast<uint64_t>((first_row + row) * ((keys + 3) / 4) + block));
  }
  SACCADE_HD bool drops(uint32_t number) const { return uniform_from_bits(number) < probability; }
  // Returns the factor for weight s of a row.
  SACCADE_HD float factor_of(int64_t row, int64_t s, int64_t keys) const {
    return drops(draw(row, s / 4, keys).x[s % 4]) ? 0.0f : factor;
  }
};

inline Kernel<void(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_padding_mask,
                   const Tensor& bias, const AttentionParams& params, Tensor& y, Tensor& lse)>
    attention_forward{"attention_forward"};

// Gradients of dot(y, dy); undefined outputs are skipped. The weights are recomputed from lse. y may be
// undefined; it saves the GPU a pass over the keys. Deterministic: dk and dv of a head are summed by one
// owner in query order.
inline Kernel<void(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_padding_mask,
                   const Tensor& bias, const AttentionParams& params, const Tensor& lse, const Tensor& y,
                   const Tensor& dy, Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias)>
    attention_backward{"attention_backward"};

}  // namespace saccade::kernels
