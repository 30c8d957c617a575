#include "models/rt_detr/decoder.h"

#include <algorithm>

#include "layers/module_scope.h"
#include "models/common/deformable_tokens.h"

namespace saccade {

// `enc_output`: what the tokens are scored by.
class RtDetrDecoder::TokenHead : public Module {
 public:
  explicit TokenHead(int64_t dim) {
    proj_ = make_child<Linear>("proj", dim, dim, LinearOptions{.weight_init = init::xavier_uniform()});
    norm_ = make_child<LayerNorm>("norm", dim);
  }
  Var forward(const Var& x) const { return norm_->forward(proj_->forward(x)); }
  std::string type_name() const override { return "TokenHead"; }

 private:
  std::shared_ptr<Linear> proj_;
  std::shared_ptr<LayerNorm> norm_;
};

RtDetrDecoder::RtDetrDecoder(int64_t channels, const RtDetrDecoderOptions& options) : options_(options) {
  const TransformerOptions& o = options.transformer;
  const LinearOptions xavier{.weight_init = init::xavier_uniform()};
  for (int64_t l = 0; l < o.levels; ++l)
    input_proj_.push_back(make_child<ConvNorm>(fmt::format("input_proj.{}", l), channels, o.dim,
                                               ConvNormOptions{.weight_init = init::xavier_uniform()}));
  decoder_ = make_child<TransformerDecoder>("decoder", o, true);
  if (o.denoising)
    denoising_class_embed_ = make_child<LabelEmbedding>("denoising_class_embed", options.classes, o.dim);
  std::vector<int64_t> position{4};
  if (options.query_position_layers == 2) position.push_back(2 * o.dim);
  while (std::ssize(position) < options.query_position_layers) position.push_back(o.dim);
  position.push_back(o.dim);
  query_pos_head_ =
      make_child<Mlp>("query_pos_head", position, MlpOptions{.activation = o.activation, .linear = xavier});
  auto score_head = [&] { return make_class_head(o.dim, options.columns); };
  auto box_head = [&] {
    const LinearOptions zero{.weight_init = init::constant(0), .bias_init = init::constant(0)};
    return std::make_shared<Mlp>(std::vector{o.dim, o.dim, o.dim, int64_t{4}},
                                 MlpOptions{.activation = o.activation, .last = zero});
  };
  enc_output_ = make_child<TokenHead>("enc_output", o.dim);
  enc_score_head_ = child("enc_score_head", score_head());
  enc_bbox_head_ = child("enc_bbox_head", box_head());
  for (int64_t i = 0; i < o.decoder_layers; ++i)
    dec_score_head_.push_back(child(fmt::format("dec_score_head.{}", i), score_head()));
  for (int64_t i = 0; i < o.decoder_layers; ++i)
    dec_bbox_head_.push_back(child(fmt::format("dec_bbox_head.{}", i), box_head()));
}

void RtDetrDecoder::forward(const std::vector<Var>& maps, const DetectorInput& input, SetOutput& output) {
  ModuleScope scope(*this);
  const int64_t dim = options_.transformer.dim;
  FeatureLevels levels;
  Vars tokens;
  for (size_t l = 0; l < maps.size(); ++l) {
    Var map = input_proj_[l]->forward(maps[l]);
    levels.push_back({map.dim(1), map.dim(2)});
    tokens.push_back(reshape(map, {map.dim(0), map.dim(1) * map.dim(2), dim}));
  }
  Var memory = concat(tokens, 1);
  TokenMaps token_maps = make_token_maps(levels, input, &constants_);
  DecoderQueries queries = select_queries(memory, make_proposals(token_maps), output.encoder);
  DenoisingQueries denoising = make_denoising(input, training(), options_.classes, options_.denoising);
  if (denoising.count() > 0) {
    const Var target = denoising_class_embed_->forward(denoising);
    const Var reference = inverse_sigmoid(Var(denoising.boxes));
    prepend(std::move(denoising), target, {}, reference, queries);
  }
  output.encoder_classes = true;
  decode(queries, memory, token_maps, input, output);
}

DecoderQueries RtDetrDecoder::select_queries(const Var& memory, const Proposals& proposals,
                                             LayerPrediction& predictions) {
  Var tokens = masked_fill(memory, proposals.invalid.unsqueeze(-1), 0);
  Tensor indices;
  {  // All tokens are scored; what learns are the chosen ones, which alone the losses see.
    NoGrad no_grad;
    Var logits = enc_score_head_->forward(enc_output_->forward(tokens));
    indices = best_tokens(logits.value(), options_.classes, options_.queries);
  }
  Var selected = enc_output_->forward(gather_rows(tokens, indices));
  Var box_logits = add(enc_bbox_head_->forward(selected), gather_rows(Var(proposals.logits), indices));
  predictions.logits = enc_score_head_->forward(selected);
  predictions.boxes = sigmoid(box_logits);
  return {.target = selected.detach(), .reference = box_logits.detach()};
}

// Boxes are refined from layer to layer; the gradient of a layer's box also flows to the head of the layer before, not
// further ("look forward twice").
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
    target = decoder_->layer(i).forward(target, query_pos_head_->forward(reference),
                                        {.key = memory,
                                         .value = memory,
                                         .padding_mask = maps.padding_mask,
                                         .reference_points = mul(reshape(reference, {N, Q, 1, 4}), ratios),
                                         .levels = maps.levels,
                                         .record = input.record_sampling ? &output.sampling.back() : nullptr},
                                        q.groups);
    Var offset = dec_bbox_head_[layer]->forward(target);
    Var box = sigmoid(add(offset, inverse_sigmoid(reference)));
    if (predicts)
      add_layer(output, q.denoising,
                {.logits = dec_score_head_[layer]->forward(target),
                 .boxes = i == 0 || !training() ? box : sigmoid(add(offset, inverse_sigmoid(previous)))});
    previous = box;
    reference = box.detach();
  }
}

}  // namespace saccade
