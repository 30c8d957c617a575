#include "models/rcnn/losses.h"

#include "models/detection/loss_term.h"

namespace saccade {
namespace {

// each(parts) -> [R]
template <class F>
Var weighted_rows(const Tensor& weights, Device device, double factor, const F& each) {
  const int64_t R = weights.dim(0);
  if (R == 0) return Var(Tensor::zeros({}, DType::kF32, device));
  return mul_scalar(sum(mul(each(LossParts::apart(R)), Var(weights))), factor);
}

// Corners as (cx, cy, w, h).
Var centre_and_sides(const Var& corners) {
  const Var low = slice(corners, 1, 0, 2), high = slice(corners, 1, 2, 4);
  return concat({mul_scalar(add(low, high), 0.5), sub(high, low)}, 1);
}

}  // namespace

Var weighted_binary_cross_entropy(const Var& logits, const Tensor& labels, const Tensor& weights,
                                  double factor) {
  return weighted_rows(weights, logits.device(), factor,
                       [&](LossParts parts) { return binary_cross_entropy(logits, labels, parts); });
}

Var weighted_cross_entropy(const Var& logits, const Tensor& labels, const Tensor& weights, double factor) {
  return weighted_rows(weights, logits.device(), factor,
                       [&](LossParts parts) { return cross_entropy(logits, labels, {}, 0, parts); });
}

Var weighted_l1(const Var& deltas, const Tensor& targets, const Tensor& weights, double factor,
                double smooth) {
  return weighted_rows(weights, deltas.device(), factor, [&](LossParts parts) {
    if (smooth == 0) return l1_loss(deltas, targets, parts);
    const Var far = abs(sub(deltas, Var(targets))), near = clamp(far, 0, smooth);
    const int numbers[] = {1};
    return sum(add(mul_scalar(square(near), 0.5 / smooth), sub(far, near)), numbers);
  });
}

Var weighted_giou(const Var& boxes, const Tensor& targets, const Tensor& weights, double factor) {
  return weighted_rows(weights, boxes.device(), factor, [&](LossParts parts) {
    return giou_loss(centre_and_sides(boxes), centre_and_sides(Var(targets)).value(), parts);
  });
}

}  // namespace saccade
