#include "models/rt_detr/hybrid_detector.h"

#include "models/common/deformable_tokens.h"

namespace saccade {

void HybridDecoder::make_projections(int64_t channels) {
  const TransformerOptions& o = shared_.transformer;
  for (int64_t l = 0; l < o.levels; ++l)
    input_proj_.push_back(make_child<ConvNorm>(fmt::format("input_proj.{}", l), channels, o.dim,
                                               ConvNormOptions{.weight_init = init::xavier_uniform()}));
}

void HybridDecoder::make_layers() {
  const TransformerOptions& o = shared_.transformer;
  decoder_ = make_child<TransformerDecoder>("decoder", o, true);
  if (o.denoising)
    denoising_class_embed_ = make_child<LabelEmbedding>("denoising_class_embed", shared_.classes, o.dim);
}

void HybridDecoder::make_query_selection() {
  selection_ = make_child<QuerySelection>("", shared_.transformer.dim, shared_.columns, shared_.classes,
                                          shared_.queries, shared_.transformer.activation);
}

void HybridDecoder::add_score_head(int64_t layer) {
  dec_score_head_.push_back(child(fmt::format("dec_score_head.{}", layer),
                                  make_class_head(shared_.transformer.dim, shared_.columns)));
}

void HybridDecoder::forward(const std::vector<Var>& maps, const DetectorInput& input, SetOutput& output) {
  std::vector<Var> projected = maps;
  for (size_t l = 0; l < input_proj_.size(); ++l) projected[l] = input_proj_[l](maps[l]);
  const auto [memory, levels] = join_tokens(projected);
  const TokenMaps token_maps = make_token_maps(levels, input, &constants_);
  DecoderQueries queries = selection_(memory, make_proposals(token_maps, &constants_), output.encoder);
  prepend_denoising(input, training(), shared_.classes, shared_.denoising, denoising_class_embed_.get(),
                    queries);
  output.encoder_classes = true;
  decode(queries, memory, token_maps, input, output);
}

HybridDetector::HybridDetector(const HybridOptions& options, std::shared_ptr<Backbone> backbone)
    : SetDetector(options),
      queries_(options.queries),
      channels_(options.encoder.dim),
      backbone_(child("backbone", std::move(backbone))) {
  encoder_ = make_child<HybridEncoder>("encoder", backbone_->channels(), options.encoder);
}

SetOutput HybridDetector::predict(const DetectorInput& input) {
  SACCADE_CHECK(input.images.rank() == 4 && input.images.dim(3) == 3,
                "[detector] images of shape {}, expected [N, H, W, 3]", input.images.shape().to_string());
  SetOutput output;
  decoder_(encoder_(backbone_(input.images), input), input, output);
  return finished(std::move(output));
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
