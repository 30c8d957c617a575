#include "models/common/detr_weights.h"

namespace saccade {
namespace {

// Returns the sampling points per head and level of an attention layer.
int64_t infer_points(const Inference& in, const std::string& attention, int64_t heads, int64_t levels) {
  int64_t rows = in.size(attention + ".sampling_offsets.weight", 0),
          group = 2 * heads * std::max<int64_t>(levels, 1);
  if (group <= 0 || rows % group != 0)
    fail_input(
        "{}: \"{}.sampling_offsets.weight\" has {} rows, expected a multiple of 2 x {} heads x {} levels "
        "(--set model.transformer.heads=...?)",
        in.path(), attention, rows, heads, levels);
  return rows / group;
}

}  // namespace

WeightRules detr_rules() {
  const std::string self = "model.decoder.layers.*.self_attn.",
                    our_self = "transformer.decoder.layers.*.self_attn.";
  return weight_rules({
      {"model.backbone.(conv_encoder.model|model).", kOfficialBackbone},
      {"model.query_position_embeddings.", "query_embed."},
      {"model.*.layers.*.(fc1|mlp.fc1).", "transformer.*.layers.*.linear1."},
      {"model.*.layers.*.(fc2|mlp.fc2).", "transformer.*.layers.*.linear2."},
      {"model.encoder.layers.*.self_attn_layer_norm.", "transformer.encoder.layers.*.norm1."},
      {"model.encoder.layers.*.final_layer_norm.", "transformer.encoder.layers.*.norm2."},
      {"model.decoder.layers.*.final_layer_norm.", "transformer.decoder.layers.*.norm3."},
      {self + "[q|k|v]_proj.", our_self + "in_proj_"},
      {self + "(out_proj|o_proj).", our_self + "out_proj."},
  });
}

InferredTransformer infer_transformer(Inference& in) {
  const std::string t = "model.transformer.", layer = "transformer.decoder.layers.";
  const Args& given = in.given().get_section("transformer");
  InferredTransformer out;
  out.heads =
      given.has("heads") ? given.get_int("heads", 0) : in.argument_or<int64_t>("nheads", 8, t + "heads");
  out.encoder_layers = in.count("transformer.encoder.layers.", ".linear1.weight");
  in.expect_in_json<std::string>("activation_function", "relu");
  in.expect_in_json<int64_t>("encoder_attention_heads", out.heads);
  in.set(t + "hidden_dim", in.size(layer + "0.norm1.weight", 0));
  in.set(t + "heads", out.heads);
  in.set(t + "encoder_layers", out.encoder_layers);
  in.set(t + "decoder_layers", in.count(layer, ".linear1.weight"));
  in.set(t + "ffn_dim", in.size(layer + "0.linear1.weight", 0));
  if (auto dropout = in.argument<double>("dropout")) in.set(t + "dropout", *dropout);
  if (auto aux = in.argument<bool>("aux_loss")) in.set(t + "aux_loss", *aux);
  return out;
}

int64_t infer_levels(Inference& in, const InferredTransformer& transformer) {
  const std::string t = "model.transformer.";
  const int64_t levels = in.size("transformer.level_embed", 0);
  in.set(t + "levels", levels);
  auto points = [&](const std::string& attention) {
    return infer_points(in, attention, transformer.heads, levels);
  };
  if (transformer.encoder_layers > 0)
    in.set(t + "encoder_points", points("transformer.encoder.layers.0.self_attn"));
  in.set(t + "decoder_points", points("transformer.decoder.layers.0.cross_attn"));
  return levels;
}

void infer_projections(Inference& in, int64_t usual) {
  // 1x1 projections read the backbone's last stages, 3x3 projections make further levels.
  int64_t from_backbone = 0;
  auto projection = [&] { return fmt::format("input_proj.{}.0.weight", from_backbone); };
  while (in.has(projection()) && in.size(projection(), 3) == 1) ++from_backbone;
  if (from_backbone != usual) {
    std::vector<int64_t> outputs;
    for (int64_t stage = 5 - from_backbone; stage <= 4; ++stage) outputs.push_back(stage);
    in.set("model.backbone.outputs", outputs);
  }
}

void infer_classes(Inference& in, const std::vector<std::string>& heads, int64_t extra_columns) {
  for (const std::string& name : heads)
    if (in.has(name)) return in.set("model.num_classes", in.size(name, 0) - extra_columns);
  fail_input("{}: no class head (\"{}\")", in.path(), heads.front());
}

void infer_criterion(Inference& in, const char* class_loss, int64_t weight) {
  in.set("criterion.class_loss", class_loss);
  in.set("criterion.class_weight", weight);
  in.set("criterion.cost_class", weight);
  if (auto given = in.argument<double>("eos_coef")) in.set("criterion.no_object_weight", *given);
  if (auto alpha = in.argument<double>("focal_alpha")) in.set("criterion.focal_alpha", *alpha);
}

}  // namespace saccade
