#include "models/rt_detr/rt_detr.h"

#include "models/build.h"

namespace saccade {
namespace {

std::shared_ptr<Module> build_rt_detr(const Args& model, int64_t classes, const Args& criterion) {
  const Args &t = model.get_section("transformer"), &own = model.get_section("rt_detr");
  HybridOptions options;
  RtDetrDecoderOptions decoder;
  read_hybrid(model, own, classes, criterion, "RT-DETR", options, decoder);
  if (own.get_string("decoder_sampling") == "discrete")
    decoder.transformer.decoder_cross_attention.set("sampling", std::string("discrete"));
  decoder.eval_layers = own.get_int("eval_layers");
  if (decoder.eval_layers > decoder.transformer.decoder_layers)
    fail_input("{}.eval_layers: {}, expected at most decoder_layers ({})", own.path(), decoder.eval_layers,
               decoder.transformer.decoder_layers);
  decoder.query_position_layers = own.get_int("query_position_layers");
  t.finish("RT-DETR");
  own.finish("RT-DETR");
  return std::make_shared<RtDetr>(options, decoder, build_hybrid_backbone(model, decoder.transformer.levels));
}

[[maybe_unused]] const bool rt_detr_registered =
    model_types().add({.name = "rt_detr",
                       .summary = "RT-DETR and RT-DETRv2 (Zhao et al. 2024, Lv et al. 2024)",
                       .task = "detection",
                       .build = build_rt_detr,
                       .parts = {"transformer", "rt_detr"},
                       .infer = infer_rt_detr,
                       .preset = "model { transformer { encoder_layers: 1 dropout: 0 levels: 3 } }"
                                 "criterion { class_loss: varifocal }"});

}  // namespace
}  // namespace saccade
