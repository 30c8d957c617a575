#include "models/rt_detr/rt_detr.h"

#include "layers/module_scope.h"
#include "models/build.h"

namespace saccade {

RtDetr::RtDetr(const RtDetrOptions& options, std::shared_ptr<Backbone> backbone)
    : SetDetector(options), backbone_(std::move(backbone)) {
  child("backbone", backbone_);
  encoder_ = make_child<HybridEncoder>("encoder", backbone_->channels(), options.encoder);
  RtDetrDecoderOptions decoder = options.decoder;
  decoder.queries = options.queries;
  decoder.columns = logit_columns();
  decoder.classes = classes();
  decoder_ = make_child<RtDetrDecoder>("decoder", options.encoder.dim, decoder);
}

SetOutput RtDetr::predict(const DetectorInput& input) {
  ModuleScope scope(*this);
  SACCADE_CHECK(input.images.rank() == 4 && input.images.dim(3) == 3,
                "[detector] images of shape {}, expected [N, H, W, 3]", input.images.shape().to_string());
  SetOutput output;
  decoder_->forward(encoder_->forward(backbone_->forward(input.images), input), input, output);
  return finished(std::move(output));
}

namespace {

std::shared_ptr<Module> build_rt_detr(const Args& model, int64_t classes, const Args& criterion) {
  const Args &t = model.get_section("transformer"), &own = model.get_section("rt_detr"),
             &hybrid = own.get_section("hybrid_encoder");
  RtDetrOptions options;
  options.read(t, criterion, classes);
  if (options.extra_query_groups > 0)
    fail_input("{}.extra_query_groups: RT-DETR's queries come from the image, expected 0", t.path());
  TransformerOptions transformer = read_transformer_options(t);
  transformer.levels = t.get_int("levels");

  options.encoder = read_hybrid_encoder(hybrid, transformer);
  transformer.denoising = options.denoising.queries > 0;
  options.decoder.transformer = transformer;
  options.decoder.denoising = options.denoising;
  options.decoder.transformer.norms_in_order = true;
  options.decoder.transformer.activation = read_decoder_activation(own);
  if (own.get_string("decoder_sampling") == "discrete")
    options.decoder.transformer.decoder_cross_attention.set("sampling", std::string("discrete"));
  options.decoder.eval_layers = own.get_int("eval_layers");
  if (options.decoder.eval_layers > transformer.decoder_layers)
    fail_input("{}.eval_layers: {}, expected at most decoder_layers ({})", own.path(),
               options.decoder.eval_layers, transformer.decoder_layers);
  options.decoder.query_position_layers = own.get_int("query_position_layers");
  t.finish("RT-DETR");
  own.finish("RT-DETR");

  auto backbone = build_backbone(model.get_section("backbone"), {2, 3, 4});
  const auto maps = static_cast<int64_t>(backbone->channels().size());
  if (transformer.levels != maps)
    fail_input("{}.levels: {} levels for {} backbone outputs, expected as many", t.path(), transformer.levels,
               maps);
  return std::make_shared<RtDetr>(options, std::move(backbone));
}

[[maybe_unused]] const bool rt_detr_registered =
    model_types().add({.name = "rt_detr",
                       .summary = "RT-DETR and RT-DETRv2 (Zhao et al. 2024, Lv et al. 2024)",
                       .task = "detection",
                       .file = __FILE__,
                       .build = build_rt_detr,
                       .parts = {"transformer", "rt_detr"},
                       .infer = infer_rt_detr,
                       .preset = "model { transformer { encoder_layers: 1 dropout: 0 levels: 3 } }"
                                 "criterion { class_loss: varifocal }"});

}  // namespace

}  // namespace saccade
