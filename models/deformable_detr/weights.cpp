// The names of Hugging Face's Deformable DETR, and what the weights of one tell of its configuration.
#include "models/common/detr_weights.h"
#include "models/deformable_detr/deformable_detr.h"

namespace saccade {
namespace {

// The official decoder's norm1 belongs to the cross-attention, norm2 to the self-attention.
const WeightRules kDeformableDetrNames = weight_rules(
    {
        {"model.input_proj.", "input_proj."},
        {"model.level_embed", "transformer.level_embed"},
        {"model.reference_points.", "transformer.reference_points."},
        {"model.enc_output.", "transformer.enc_output."},
        {"model.enc_output_norm.", "transformer.enc_output_norm."},
        {"model.pos_trans.", "transformer.pos_trans."},
        {"model.pos_trans_norm.", "transformer.pos_trans_norm."},
        {"model.encoder.layers.*.self_attn.", "transformer.encoder.layers.*.self_attn."},
        {"model.decoder.layers.*.self_attn_layer_norm.", "transformer.decoder.layers.*.norm2."},
        {"model.decoder.layers.*.encoder_attn.", "transformer.decoder.layers.*.cross_attn."},
        {"model.decoder.layers.*.encoder_attn_layer_norm.", "transformer.decoder.layers.*.norm1."},
        {"model.decoder.bbox_embed.", "transformer.decoder.bbox_embed."},
        {"model.decoder.class_embed.", "transformer.decoder.class_embed."},
    },
    detr_rules());

[[maybe_unused]] const bool hugging_face_deformable_detr =
    weight_namings().add({.name = "Hugging Face Deformable DETR",
                          .markers = {"model.level_embed"},
                          .rules = kDeformableDetrNames,
                          .scope = WeightNaming::kDetector});

// Without refinement all layers have one head, which a file may hold under each of its names.
bool heads_differ(const Inference& in) {
  const char *first = "bbox_embed.0.layers.0.weight", *second = "bbox_embed.1.layers.0.weight";
  if (!in.has(first) || !in.has(second)) return false;
  Tensor a = in.read(first), b = in.read(second);
  return a.shape() != b.shape() ||
         a.to(DType::kF64).to_vector<double>() != b.to(DType::kF64).to_vector<double>();
}

}  // namespace

bool infer_deformable_detr(Inference& in) {
  if (!in.has("transformer.level_embed") || in.has(kDinoContent)) return false;
  infer_backbone(in, kOfficialBackbone);
  const std::string t = "model.transformer.", own = "model.deformable_detr.";
  const InferredTransformer transformer = infer_transformer(in);
  const int64_t levels = infer_levels(in, transformer);
  const bool two_stage = in.has("transformer.enc_output.weight");
  in.set(own + "two_stage", two_stage);
  in.set(own + "box_refine",
         two_stage || in.has("transformer.decoder.bbox_embed.0.layers.0.weight") || heads_differ(in));
  if (!two_stage)
    in.set(t + "queries", in.size("query_embed.weight", 0));
  else if (!in.given().get_section("transformer").has("queries"))
    in.set(t + "queries", in.json().path.empty()
                              ? in.argument_or<int64_t>("num_queries", 300, t + "queries")
                              : in.json().find<int64_t>("two_stage_num_proposals").value_or(300));
  infer_projections(in, levels == 1 ? 1 : 3);
  infer_classes(
      in, {"class_embed.0.weight", "transformer.decoder.class_embed.0.weight", "class_embed.weight"}, 0);
  infer_criterion(in, "focal", 2);
  return true;
}

}  // namespace saccade
