#include "models/rcnn/stage_loss.h"

#include <algorithm>

#include "core/runtime/packed_upload.h"
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

// Converts corners to (cx, cy, w, h).
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
namespace {

Var mask_loss(const StageOutput& out, const std::vector<Target>& targets, double images_with_objects) {
  const Device device = out.regions.logits.device();
  if (!out.mask_logits.defined()) return Var(Tensor::zeros({}, DType::kF32, device));
  const int64_t maps = out.mask_logits.dim(0), side = out.mask_logits.dim(1), pixels = side * side;
  std::vector<int64_t> labels;
  for (float set : mask_targets(out.samples, targets, side)) labels.push_back(set > 0 ? 0 : -1);
  PackedUpload upload;
  upload.add(Shape{maps, pixels}, filled(labels, maps * pixels, int64_t{-1}));
  upload.add(Shape{maps}, filled(out.samples.mask_weights, maps, 0.0f));
  const std::vector<Tensor> t = upload.upload(device);
  return weighted_binary_cross_entropy(reshape(out.mask_logits, {maps, pixels, 1}), t[0], t[1],
                                       1 / (images_with_objects * static_cast<double>(pixels)));
}

}  // namespace

StageLoss stage_loss(const StageOutput& output, const std::vector<Target>& targets, const StepImages& step,
                     const BoxCoder& coder, BoxLoss box_loss) {
  const RoiSamples& s = output.samples;
  const int64_t R = output.regions.logits.dim(0), P = std::ssize(s.objects),
                K = output.regions.logits.dim(1) - 1, boxes = output.regions.deltas.dim(1);
  std::vector<int64_t> rows;
  std::vector<float> from, deltas, weights;
  for (size_t i = 0; i < s.objects.size(); ++i) {
    const auto roi = static_cast<size_t>(s.objects[i].roi);
    rows.push_back(s.objects[i].roi * boxes + (boxes == 1 ? 0 : s.labels[roi]));
    weights.push_back(s.weights[roi]);
    const float* region = s.boxes.data() + 4 * roi;
    from.insert(from.end(), region, region + 4);
    const auto moved = coder.encode(region, s.object_boxes.data() + 4 * i);
    deltas.insert(deltas.end(), moved.begin(), moved.end());
  }
  const bool of_boxes = box_loss == BoxLoss::kGiou;
  PackedUpload upload;
  upload.add(Shape{R}, filled(s.labels, R, K));
  upload.add(Shape{R}, filled(s.weights, R, 0.0f));
  upload.add(Shape{P}, rows);
  upload.add(Shape{P}, weights);
  upload.add(Shape{P, 4}, of_boxes ? s.object_boxes : deltas);
  if (of_boxes) upload.add(Shape{P, 4}, from);
  const std::vector<Tensor> t = upload.upload(output.regions.logits.device());
  const double part = 1 / static_cast<double>(std::max<int64_t>(step.images(), 1)),
               with_objects = static_cast<double>(std::max<int64_t>(step.matched(1), 1));
  const Var own = index_select(reshape(output.regions.deltas, {R * boxes, 4}), t[2]);
  return {weighted_cross_entropy(output.regions.logits, t[0], t[1], part),
          of_boxes ? weighted_giou(coder.decode(own, t[5]), t[4], t[3], part)
                   : weighted_l1(own, t[4], t[3], part, box_loss == BoxLoss::kSmoothL1 ? 1 : 0),
          mask_loss(output, targets, with_objects)};
}

}  // namespace saccade
