#include "models/rt_detr/hybrid_detector.h"

namespace saccade {

void HybridDecoder::forward(const std::vector<Var>& maps, const DetectorInput& input, SetOutput& output) {
  std::vector<Var> projected = maps;
  for (size_t l = 0; l < input_proj_.size(); ++l) projected[l] = input_proj_[l](maps[l]);
  const LevelTokens tokens = join_levels(projected, input, constants_);
  DecoderQueries queries =
      selection_(tokens.memory, make_proposals(tokens.maps, &constants_), output.encoder);
  prepend_denoising(input, training(), shared_.classes, shared_.denoising, denoising_class_embed_.get(),
                    queries);
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
  decoder.transformer.activation = read_decoder_activation(own);
  decoder.denoising = options.denoising;
}

std::shared_ptr<Backbone> build_hybrid_backbone(const Args& model, int64_t levels) {
  auto backbone = build_backbone(model.get_section("backbone"), {2, 3, 4});
  const auto maps = static_cast<int64_t>(backbone->channels().size());
  if (levels != maps)
    fail_input("{}.levels: {} levels for {} backbone outputs, expected as many",
               model.get_section("transformer").path(), levels, maps);
  return backbone;
}

}  // namespace saccade
