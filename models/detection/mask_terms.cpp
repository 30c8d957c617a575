// Losses of masks (Cheng et al. 2021, "Per-Pixel Classification is Not All You Need for Semantic
// Segmentation", section 3.4), whose pixels are compared at the size of the predicted maps: "mask", the mean
// binary cross entropy of a map, and "dice" (Milletari et al. 2016).
#include "core/tensor/error.h"
#include "models/detection/loss_term.h"

namespace saccade {
namespace {

// Rows of the matched queries' maps [P, h * w], and of their objects' 0 or 1. An object without a mask has
// the weight 0, others 1 [P].
struct MatchedMasks {
  Var logits;  // f32
  Tensor truth, weights;
};

MatchedMasks matched_masks(const Var& masks, const MatchedQueries& matched) {
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

class MaskTerm : public LossTerm {
 public:
  Var sum(const LayerPrediction& predicted, const MatchedQueries& matched) const override {
    const Var& masks = predicted.masks;
    const int64_t G = predicted.boxes.dim(0), P = std::ssize(matched.objects);
    if (!masks.defined() || P == 0) return Var(Tensor::zeros({G}, DType::kF32, predicted.boxes.device()));
    const MatchedMasks pairs = matched_masks(masks, matched);
    const int each[] = {1};
    return saccade::sum(reshape(mul(of_maps(pairs), Var(pairs.weights)), {G, P / G}), each);
  }

 private:
  virtual Var of_maps(const MatchedMasks& pairs) const = 0;  // [P]
};

class CrossEntropyTerm : public MaskTerm {
  Var of_maps(const MatchedMasks& pairs) const override {
    const int64_t P = pairs.truth.dim(0), pixels = pairs.truth.dim(1);
    std::vector<int64_t> labels;  // the class 0, or none
    for (float set : pairs.truth.to_vector<float>()) labels.push_back(set > 0 ? 0 : -1);
    const Var sums = binary_cross_entropy(reshape(pairs.logits, {P, pixels, 1}),
                                          Tensor::from<int64_t>({P, pixels}, labels, pairs.logits.device()),
                                          LossParts::apart(P));
    return mul_scalar(sums, 1 / static_cast<double>(pixels));
  }
};

class DiceTerm : public MaskTerm {
  Var of_maps(const MatchedMasks& pairs) const override {
    const int pixels[] = {1};
    const Var found = sigmoid(pairs.logits), truth(pairs.truth);
    const Var common = saccade::sum(mul(found, truth), pixels);
    const Var both = add(saccade::sum(found, pixels), saccade::sum(truth, pixels));
    return add_scalar(mul_scalar(div(add_scalar(mul_scalar(common, 2), 1), add_scalar(both, 1)), -1), 1);
  }
};

[[maybe_unused]] const bool mask_registered = register_loss_term<CrossEntropyTerm>("mask", __FILE__);
[[maybe_unused]] const bool dice_registered = register_loss_term<DiceTerm>("dice", __FILE__);

}  // namespace
}  // namespace saccade
