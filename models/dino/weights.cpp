// What the weights of a DINO tell of its configuration, and the official names of one with a Swin.
#include "models/common/detr_weights.h"
#include "models/dino/dino.h"

namespace saccade {
namespace {

// There the backbone has no body.
[[maybe_unused]] const bool official_swin_detector =
    weight_namings().add({.name = "official DINO with a Swin",
                          .markers = {"backbone.0.patch_embed.proj.weight"},
                          .rules = {{"backbone.0.patch_embed.", "backbone.0.body.patch_embed."},
                                    {"backbone.0.layers.", "backbone.0.body.layers."},
                                    {"backbone.0.norm", "backbone.0.body.norm"}},
                          .scope = WeightNaming::kDetector});

}  // namespace

bool infer_dino(Inference& in) {
  if (!in.has(kDinoContent)) return false;
  infer_backbone(in, kOfficialBackbone);
  const std::string t = "model.transformer.";
  const InferredTransformer transformer = infer_transformer(in);
  const int64_t levels = infer_levels(in, transformer);
  in.set(t + "queries", in.size(kDinoContent, 0));
  infer_projections(in, levels > 4 ? 4 : 3);
  infer_classes(in, {"transformer.enc_out_class_embed.weight"}, 0);
  infer_criterion(in, "focal", 1);
  in.set("criterion.cost_class", 2);
  return true;
}

}  // namespace saccade
