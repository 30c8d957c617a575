// The names of Hugging Face's DETR, and what the weights of a DETR tell of its configuration.
#include "models/common/detr_weights.h"
#include "models/detr/detr.h"

namespace saccade {
namespace {

const WeightRules kDetrNames = weight_rules(
    {
        {"model.(position_embedding|backbone.position_embedding).row_embeddings.", "backbone.1.row_embed."},
        {"model.(position_embedding|backbone.position_embedding).column_embeddings.",
         "backbone.1.col_embed."},
        {"model.input_projection.", "input_proj."},
        {"model.encoder.layers.*.self_attn.[q|k|v]_proj.", "transformer.encoder.layers.*.self_attn.in_proj_"},
        {"model.encoder.layers.*.self_attn.(out_proj|o_proj).",
         "transformer.encoder.layers.*.self_attn.out_proj."},
        {"model.decoder.layers.*.self_attn_layer_norm.", "transformer.decoder.layers.*.norm1."},
        {"model.decoder.layers.*.encoder_attn.[q|k|v]_proj.",
         "transformer.decoder.layers.*.multihead_attn.in_proj_"},
        {"model.decoder.layers.*.encoder_attn.(out_proj|o_proj).",
         "transformer.decoder.layers.*.multihead_attn.out_proj."},
        {"model.decoder.layers.*.encoder_attn_layer_norm.", "transformer.decoder.layers.*.norm2."},
        {"model.*.layernorm.", "transformer.*.norm."},
        {"class_labels_classifier.", "class_embed."},
        {"bbox_predictor.", "bbox_embed."},
    },
    detr_rules());

[[maybe_unused]] const bool hugging_face_detr =
    weight_namings().add({.name = "Hugging Face DETR",
                          .file = __FILE__,
                          .markers = {"class_labels_classifier.weight"},
                          .rules = kDetrNames,
                          .place = WeightNaming::kDetector});

}  // namespace

bool infer_detr(Inference& in) {
  if (!in.has("class_embed.weight") || !in.has("transformer.decoder.layers.0.multihead_attn.in_proj_weight"))
    return false;
  const std::string t = "model.transformer.";
  infer_backbone(in);
  infer_transformer(in);
  in.set(t + "levels", 1);
  in.set(t + "pre_norm", in.has("transformer.encoder.norm.weight"));
  in.set(t + "position_encoding", in.has("backbone.1.row_embed.weight") ? "learned" : "sine");
  in.set(t + "queries", in.size("query_embed.weight", 0));
  infer_classes(in, {"class_embed.weight"}, 1);
  infer_criterion(in, "softmax", 1);
  return true;
}

}  // namespace saccade
