#include "models/rcnn/losses.h"

namespace saccade {
namespace {

// each(parts) -> [R]
template <class F>
Var weighted_rows(const Tensor& weights, Device device, double factor, const F& each) {
  const int64_t R = weights.dim(0);
  if (R == 0) return Var(Tensor::zeros({}, DType::kF32, device));
  return mul_scalar(sum(mul(each(LossParts::apart(R)), Var(weights))), factor);
}

}  // namespace

Var binary_cross_entropy(const Var& logits, const Tensor& labels, const Tensor& weights, double factor) {
  // The focal loss with equal weights of a half and no focus is half of it.
  return weighted_rows(weights, logits.device(), 2 * factor,
                       [&](LossParts parts) { return sigmoid_focal_loss(logits, labels, 0.5, 0, parts); });
}

Var weighted_cross_entropy(const Var& logits, const Tensor& labels, const Tensor& weights, double factor) {
  return weighted_rows(weights, logits.device(), factor,
                       [&](LossParts parts) { return cross_entropy(logits, labels, {}, 0, parts); });
}

Var weighted_l1(const Var& deltas, const Tensor& targets, const Tensor& weights, double factor) {
  return weighted_rows(weights, deltas.device(), factor,
                       [&](LossParts parts) { return l1_loss(deltas, targets, parts); });
}

}  // namespace saccade
