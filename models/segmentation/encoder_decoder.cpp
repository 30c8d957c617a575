#include "models/segmentation/encoder_decoder.h"

namespace saccade {

EncoderDecoder::EncoderDecoder(std::string type, PixelLossOptions loss, const Parts& parts)
    : type_(std::move(type)), loss_(std::move(loss)), parts_(parts) {
  child("backbone", parts_.backbone);
  if (parts_.neck) child("neck", parts_.neck);
  child("decode_head", parts_.head);
  if (parts_.auxiliary) child("auxiliary_head", parts_.auxiliary);
}

SegmenterOutput EncoderDecoder::forward(const Var& images) {
  SACCADE_CHECK(images.rank() == 4 && images.dim(3) == 3,
                "[segmenter] images of shape {}, expected [N, H, W, 3]", images.shape().to_string());
  const Vars maps = parts_.backbone(images);
  SegmenterOutput output;
  output.logits = parts_.head(parts_.neck ? parts_.neck(maps) : maps);
  if (training() && parts_.auxiliary) output.auxiliary = parts_.auxiliary(maps);
  return output;
}

Var EncoderDecoder::sum_of(const Var& logits, const Tensor& labels) const {
  const Var pixels = logits_at(logits, labels.dim(1), labels.dim(2));
  Tensor weights;
  if (!loss_.class_weights.empty())
    weights = constants_.get(CacheKey().add(static_cast<int>(logits.device())), [&] {
      const std::vector<float> values(loss_.class_weights.begin(), loss_.class_weights.end());
      return Tensors{Tensor::from<float>({loss_.classes}, values, logits.device())};
    })[0];
  return cross_entropy(reshape(pixels, {labels.numel(), loss_.classes}),
                       labels.contiguous().reshape({labels.numel()}), weights, 0, LossParts::apart(1));
}

SegmentationLoss EncoderDecoder::loss(const SegmenterOutput& output, const Tensor& labels,
                                      double divisor) const {
  SACCADE_CHECK(labels.rank() == 3 && labels.dim(0) == output.logits.dim(0),
                "[segmenter] labels of shape {}, expected [{}, H, W]", labels.shape().to_string(),
                output.logits.dim(0));
  SACCADE_CHECK(divisor > 0, "[segmenter] got a divisor of {}, expected more than 0", divisor);
  Vars sums{sum_of(output.logits, labels)};
  std::vector<WeightedTerm> terms{{0, 0, 1 / divisor}};
  if (output.auxiliary.defined()) {
    sums.push_back(sum_of(output.auxiliary, labels));
    terms.push_back({1, 0, loss_.auxiliary_weight / divisor});
  }
  SegmentationLoss loss;
  Tensor parts;
  loss.total = weighted_sum(sums, terms, parts);
  for (int64_t i = 0; i < parts.dim(0); ++i)
    loss.parts.emplace_back(i == 0 ? "class" : "auxiliary", parts.select(0, i));
  return loss;
}

std::vector<double> read_class_weights(const Args& criterion, int64_t classes) {
  std::vector<double> weights = criterion.get_floats("class_weights", {});
  if (!weights.empty() && std::ssize(weights) != classes)
    fail_input("{}.class_weights: {} numbers, expected one for each of the {} classes", criterion.path(),
               weights.size(), classes);
  return weights;
}

}  // namespace saccade
