#include "models/rt_detr/decoder.h"

#include <algorithm>

namespace saccade {

RtDetrDecoder::RtDetrDecoder(int64_t channels, const RtDetrDecoderOptions& options)
    : HybridDecoder(options), options_(options) {
  const TransformerOptions& o = options.transformer;
  make_projections(channels);
  make_layers();
  std::vector<int64_t> position{4};
  if (options.query_position_layers == 2) position.push_back(2 * o.dim);
  while (std::ssize(position) < options.query_position_layers) position.push_back(o.dim);
  position.push_back(o.dim);
  const LinearOptions xavier{.weight_init = init::xavier_uniform()};
  query_pos_head_ =
      make_child<Mlp>("query_pos_head", position, MlpOptions{.activation = o.activation, .linear = xavier});
  make_query_selection();
  for (int64_t i = 0; i < o.decoder_layers; ++i) add_score_head(i);
  for (int64_t i = 0; i < o.decoder_layers; ++i)
    dec_bbox_head_.push_back(
        child(fmt::format("dec_bbox_head.{}", i), make_refining_head(o.dim, 4, o.activation)));
}

// Boxes are refined from layer to layer; the gradient of a layer's box also flows to the head of the layer
// before, not further ("look forward twice").
void RtDetrDecoder::decode(const DecoderQueries& q, const Var& memory, const TokenMaps& maps,
                           const DetectorInput& input, SetOutput& output) {
  const int64_t N = q.target.dim(0), Q = q.target.dim(1), all = options_.transformer.decoder_layers;
  const int64_t count = training() || options_.eval_layers == 0 ? all : std::min(options_.eval_layers, all);
  Var ratios = Var(maps.valid_ratios.unsqueeze(1));  // [N, 1, L, 2]
  ratios = concat({ratios, ratios}, -1);
  Var target = q.target, reference = sigmoid(q.reference), previous = reference;
  for (int64_t i = 0; i < count; ++i) {
    const bool predicts = training() || i + 1 == count;
    auto layer = static_cast<size_t>(i);
    if (input.record_sampling) output.sampling.emplace_back();
    target = decoder_->layer(i)(
        target, query_pos_head_(reference),
        AttentionInput{.key = memory,
                       .value = memory,
                       .padding_mask = maps.padding_mask,
                       .reference_points = mul(reshape(reference, {N, Q, 1, 4}), ratios),
                       .levels = maps.levels,
                       .record = input.record_sampling ? &output.sampling.back() : nullptr},
        q.groups);
    Var offset = dec_bbox_head_[layer](target);
    Var box = sigmoid(add(offset, inverse_sigmoid(reference)));
    if (predicts)
      add_layer(output, q.denoising,
                {.logits = dec_score_head_[layer](target),
                 .boxes = i == 0 || !training() ? box : sigmoid(add(offset, inverse_sigmoid(previous)))});
    previous = box;
    reference = box.detach();
  }
}

}  // namespace saccade
