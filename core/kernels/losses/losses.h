// Losses with their gradients in one pass. The rows (or pairs) form as many parts of equal size as `partial`,
// f64 [parts, pieces], has rows; the sum of a row is the loss of a part (the pieces depend only on the
// shape). grad, if defined, gets the gradient of these sums with respect to the first tensor. All tensors are
// contiguous, of one dtype f32 or f64; labels are i64.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// Elements per piece of the dense losses, rows per piece of cross_entropy_loss, pairs per piece of the box
// losses; n counts those of one part.
inline constexpr int64_t kLossElements = 1024, kLossRows = 16, kLossPairs = 256;
inline int64_t loss_pieces(int64_t n, int64_t piece) { return ceil_div(n, piece); }

// The losses in which each logit is a separate decision.
enum class ClassDecision : uint8_t {
  // With z = -x where the class is the label and x elsewhere: w * sigmoid(z)^gamma * log(1 + e^z), w = alpha
  // for the label, 1 - alpha elsewhere (Lin et al. 2017, eq. 5).
  kFocal,
  // The others have a quality q [R] of the label's class. Parts marked by | | are constants for the gradient.
  // q * BCE(x, q) for the label, alpha * |p^gamma| * -log(1 - p) elsewhere (Zhang et al. 2021, eq. 2).
  kVarifocal,
  // BCE(x, q^gamma) for the label, |p^gamma| * -log(1 - p) elsewhere (Huang et al. 2025, DEIM, eq. 4).
  kMatchability,
  // BCE(x, |max(p^alpha q^(1 - alpha), 0.01)|) for the label, p^gamma * -log(1 - p) elsewhere (Cai et al.
  // 2023, as in LW-DETR).
  kIouAware,
};
struct DecisionParams {
  ClassDecision decision = ClassDecision::kFocal;
  double alpha = 0, gamma = 0;
};
// x, grad [R, K]; labels [R], the class or a number outside [0, K) for "no object"; quality [R] in x's dtype,
// undefined for kFocal; pieces of kLossElements elements.
inline Kernel<void(const Tensor& x, const Tensor& labels, const Tensor& quality, const DecisionParams& params,
                   Tensor& partial, Tensor& grad)>
    decision_loss{"decision_loss"};
// x, grad [R, K], K >= 1; labels [R] in [0, K), or less than 0 for a row that does not count; weights [K] in
// x's dtype or undefined; pieces of kLossRows rows: (1 - s) * w_label * nll_label + s / K * sum_c w_c * nll_c
// with smoothing s.
inline Kernel<void(const Tensor& x, const Tensor& labels, const Tensor& weights, double smoothing,
                   Tensor& partial, Tensor& grad)>
    cross_entropy_loss{"cross_entropy_loss"};
// boxes, targets, grad [P, 4] as (cx, cy, w, h); pieces of kLossPairs pairs: 1 - GIoU of the pairs
// (Rezatofighi et al. 2019; gradient: docs/giou_gradient.md).
inline Kernel<void(const Tensor& boxes, const Tensor& targets, Tensor& partial, Tensor& grad)> giou_loss{
    "giou_loss"};
// boxes, targets, grad [P, 4]; pieces of kLossElements numbers: |boxes - targets|, gradient 0 at 0.
inline Kernel<void(const Tensor& boxes, const Tensor& targets, Tensor& partial, Tensor& grad)> l1_loss{
    "l1_loss"};

}  // namespace saccade::kernels
