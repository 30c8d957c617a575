// Losses of masks (Cheng et al. 2021, "Per-Pixel Classification is Not All You Need for Semantic
// Segmentation", section 3.4), compared pixel by pixel at the size of the predicted maps: "mask", the mean
// binary cross entropy of a map, and "dice".
#include "core/tensor/error.h"
#include "models/detection/masks/mask_pairs.h"

namespace saccade {
Var MaskTerm::sum(const LayerPrediction& predicted, const MatchedQueries& matched) const {
  const int64_t G = predicted.boxes.dim(0);
  const auto all = pairs(predicted, matched);
  if (!all) return Var(Tensor::zeros({G}, DType::kF32, predicted.boxes.device()));
  const int each[] = {1};
  return saccade::sum(reshape(mul(loss(*all), Var(all->weights)), {G, all->truth.dim(0) / G}), each);
}

Var mask_cross_entropy(const MaskPairs& pairs) {
  const int64_t P = pairs.truth.dim(0), K = pairs.truth.dim(1);
  const Tensor labels = add_scalar(Var(pairs.truth), -1).value().to(DType::kI64);  // the class 0, or none
  const Var sums = binary_cross_entropy(reshape(pairs.logits, {P, K, 1}), labels, LossParts::apart(P));
  return mul_scalar(sums, 1 / static_cast<double>(K));
}

Var mask_dice(const MaskPairs& pairs) {
  const int each[] = {1};
  const Var found = sigmoid(pairs.logits), truth(pairs.truth);
  const Var common = sum(mul(found, truth), each);
  const Var both = add(sum(found, each), sum(truth, each));
  return add_scalar(neg(div(add_scalar(mul_scalar(common, 2), 1), add_scalar(both, 1))), 1);
}

namespace {

MaskPairs matched_masks(const Var& masks, const MatchedQueries& matched) {
  const int64_t P = std::ssize(matched.objects), h = masks.dim(3), w = masks.dim(4);
  std::vector<float> truth, weights;
  truth.reserve(static_cast<size_t>(P * h * w));
  for (const auto& [image, instance] : matched.objects) {
    weights.push_back(instance->mask ? 1 : 0);
    if (!instance->mask) {
      truth.resize(truth.size() + static_cast<size_t>(h * w));
      continue;
    }
    const Mask map =
        instance->mask->resize({image->height, image->width}).crop(0, 0, matched.canvas).resize({h, w});
    for (uint8_t pixel : map.bitmap()) truth.push_back(pixel);
  }
  const Var rows =
      index_select(reshape(masks, {masks.dim(0) * masks.dim(1) * masks.dim(2), h * w}), matched.indices);
  return {cast(rows, DType::kF32), Tensor::from<float>({P, h * w}, truth, masks.device()),
          Tensor::from<float>({P}, weights, masks.device())};
}

struct MapTerm : MaskTerm {
  std::shared_ptr<const MaskPairs> pairs(const LayerPrediction& predicted,
                                         const MatchedQueries& matched) const override {
    if (!predicted.masks.defined() || matched.objects.empty()) return nullptr;
    return std::make_shared<MaskPairs>(matched_masks(predicted.masks, matched));
  }
};

[[maybe_unused]] const bool mask_registered =
    register_loss_term<MaskTermOf<MapTerm, mask_cross_entropy>>("mask", __FILE__);
[[maybe_unused]] const bool dice_registered =
    register_loss_term<MaskTermOf<MapTerm, mask_dice>>("dice", __FILE__);

}  // namespace
}  // namespace saccade
