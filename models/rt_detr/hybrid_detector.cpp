#include "models/rt_detr/hybrid_detector.h"

namespace saccade {

DecoderQueries QuerySelection::forward(const Var& memory, const Proposals& proposals,
                                       LayerPrediction& predictions) const {
  Var tokens = masked_fill(memory, proposals.invalid.unsqueeze(-1), 0);
  Tensor indices;
  {  // All tokens are scored, but only the chosen ones are trained and appear in the losses.
    NoGrad no_grad;
    Var logits = enc_score_head_(enc_output_(tokens));
    indices = best_tokens(logits.value(), classes_, queries_);
  }
  Var selected = enc_output_(gather_rows(tokens, indices));
  Var box_logits = add(enc_bbox_head_(selected), gather_rows(Var(proposals.logits), indices));
  if (training()) {  // predictions are only needed for its losses
    predictions.logits = enc_score_head_(selected);
    predictions.boxes = sigmoid(box_logits);
  }
  return {.target = selected.detach(), .reference = box_logits.detach()};
}

void HybridDecoder::forward(const std::vector<Var>& maps, const DetectorInput& input, SetOutput& output) {
  std::vector<Var> projected = maps;
  for (size_t l = 0; l < input_proj_.size(); ++l) projected[l] = input_proj_[l](maps[l]);
  const LevelTokens tokens = join_levels(projected, input, constants_);
  DecoderQueries queries =
      selection_(tokens.memory, make_proposals(tokens.maps, &constants_), output.encoder);
  DenoisingQueries denoising = make_denoising(input, training(), shared_.classes, shared_.denoising);
  if (denoising.count() > 0) {
    const Var target = denoising_class_embed_(denoising), reference = inverse_sigmoid(Var(denoising.boxes));
    prepend(std::move(denoising), target, {}, reference, queries);
  }
  output.encoder_classes = true;
  decode(queries, tokens, input.record_sampling, output);
}

void read_hybrid(const Args& model, const Args& own, int64_t classes, const Args& criterion,
                 const std::string& family, HybridOptions& options, HybridDecoderOptions& decoder) {
  const Args& t = model.get_section("transformer");
  options.read(t, criterion, classes);
  if (options.extra_query_groups > 0)
    fail_input("{}.extra_query_groups: {}'s queries come from the image, expected 0", t.path(), family);
  TransformerOptions transformer = read_transformer_options(t);
  transformer.levels = t.get_int("levels");
  options.encoder = read_hybrid_encoder(own.get_section("hybrid_encoder"), transformer);
  decoder.transformer = std::move(transformer);
  decoder.transformer.denoising = options.denoising.queries > 0;
  decoder.transformer.norms_in_order = true;
  decoder.transformer.activation =
      own.get_string("decoder_activation") == "silu" ? Activation::kSilu : Activation::kRelu;
  decoder.denoising = options.denoising;
}

std::shared_ptr<Backbone> build_hybrid_backbone(const Args& model, int64_t levels) {
  auto backbone = build_backbone(model.get_section("backbone"), {2, 3, 4});
  const auto maps = static_cast<int64_t>(backbone->channels().size());
  if (levels != maps)
    fail_input("{}.levels: {} levels for {} backbone outputs, expected one for each",
               model.get_section("transformer").path(), levels, maps);
  return backbone;
}

}  // namespace saccade
