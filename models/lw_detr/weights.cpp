// Hugging Face's names, and the inference of the configuration from the weights.
#include "models/lw_detr/weights.h"

#include <cmath>

#include "models/backbone.h"
#include "models/common/detr_weights.h"

namespace saccade {
namespace {

const std::string kLwEncoder = "model.backbone.backbone.", kLwLayer = kLwEncoder + "encoder.layer.*.",
                  kLwBlock = std::string(kLwDetrBackbone) + "blocks.*.";

WeightRules lw_detr_names() {
  return weight_rules(
      {
          {kLwEncoder + "embeddings.position_embeddings", std::string(kLwDetrBackbone) + "pos_embed"},
          {kLwEncoder + "embeddings.projection.", std::string(kLwDetrBackbone) + "patch_embed.proj."},
          {kLwLayer + "attention.(attention.query|q_proj).bias", kLwBlock + "attn.q_bias"},
          {kLwLayer + "attention.(attention.value|v_proj).bias", kLwBlock + "attn.v_bias"},
          {kLwLayer + "attention.attention.[query|key|value].", kLwBlock + "attn.qkv."},
          {kLwLayer + "attention.[q|k|v]_proj.", kLwBlock + "attn.qkv."},
          {kLwLayer + "attention.(output|o_proj).", kLwBlock + "attn.proj."},
          {kLwLayer + "intermediate.", kLwBlock + "mlp."},
          {kLwLayer + "layernorm_before.", kLwBlock + "norm1."},
          {kLwLayer + "layernorm_after.", kLwBlock + "norm2."},
          {kLwLayer, kLwBlock},
      },
      hugging_face_lw_detr_names());
}

[[maybe_unused]] const bool hugging_face_lw_detr =
    weight_namings().add({.name = "Hugging Face LW-DETR",
                          .markers = {"model.backbone.backbone.encoder.layer.0.gamma_1"},
                          .rules = lw_detr_names(),
                          .scope = WeightNaming::kDetector});

}  // namespace

WeightRules hugging_face_lw_detr_names() {
  const std::string projector = "model.backbone.projector.", ours = "backbone.0.projector.",
                    layer = "model.decoder.layers.*.", our_layer = "transformer.decoder.layers.*.";
  WeightRules rules;
  const auto add = [&](const std::string& from, const std::string& to) {
    for (const WeightRule& rule : weight_rules({{from, to}})) rules.push_back(rule);
  };
  // RF-DETR has only one scale.
  for (const auto& [scale, stage] :
       {std::pair<std::string, std::string>{"scale_layers.*.", "stages.*."}, {"", "stages.0."}}) {
    add(projector + scale + "layer_norm.", ours + stage + "1.");
    for (const std::string number : {"1", "2"})
      for (const auto& [from, to] :
           {std::pair<std::string, std::string>{"conv.", "conv."}, {"norm.", "bn."}}) {
        add(projector + scale + "projector_layer.conv" + number + "." + from,
            ours + stage + "0.cv" + number + "." + to);
        add(projector + scale + "projector_layer.bottlenecks.*.conv" + number + "." + from,
            ours + stage + "0.m.*.cv" + number + "." + to);
      }
  }
  const std::string sampling = projector + "scale_layers.*.sampling_layers.*.layers.*.",
                    our_sampling = ours + "stages_sampling.*.*.*.";
  add(sampling + "norm.", our_sampling + "bn.");
  add(sampling, our_sampling);
  add(layer + "self_attn.[q|k|v]_proj.", our_layer + "self_attn.in_proj_");
  add(layer + "self_attn.(out_proj|o_proj).", our_layer + "self_attn.out_proj.");
  add(layer + "self_attn_layer_norm.", our_layer + "norm1.");
  add(layer + "cross_attn_layer_norm.", our_layer + "norm2.");
  add(layer + "layer_norm.", our_layer + "norm3.");
  add(layer + "mlp.fc1.", our_layer + "linear1.");
  add(layer + "mlp.fc2.", our_layer + "linear2.");
  add("model.decoder.layernorm.", "transformer.decoder.norm.");
  add("model.decoder.", "transformer.decoder.");
  add("model.reference_point_embed.", "refpoint_embed.");
  add("model.query_feat.", "query_feat.");
  add("model.enc_", "transformer.enc_");
  return rules;
}

bool infer_lw_detr_parts(Inference& in) {
  const std::string t = "model.transformer.", own = "model.lw_detr.", layer = "transformer.decoder.layers.",
                    fusion = "backbone.0.projector.stages.0.0.", rows = "refpoint_embed.weight";
  if (!in.has(rows) || !in.has("transformer.enc_output.0.weight") || !in.has(fusion + "cv1.conv.weight"))
    return false;
  infer_backbone(in, kLwDetrBackbone);
  const int64_t dim = in.size("query_feat.weight", 1);
  const Args &given = in.given().get_section("transformer"), &given_own = in.given().get_section("lw_detr");
  // All published models have 32 channels per head of self-attention and 16 per head of cross-attention.
  const int64_t heads = given.has("heads") ? given.get_int("heads", 0)
                                           : in.argument_or<int64_t>("sa_nheads", dim / 32, t + "heads"),
                cross_heads = given_own.has("cross_heads")
                                  ? given_own.get_int("cross_heads", 0)
                                  : in.argument_or<int64_t>("ca_nheads", dim / 16, own + "cross_heads");
  const int64_t levels = in.count("backbone.0.projector.stages.", ".0.cv1.conv.weight"),
                groups = in.count("transformer.enc_output.", ".weight"),
                offsets = in.size(layer + "0.cross_attn.sampling_offsets.weight", 0);
  if (in.size(rows, 0) % groups != 0)
    fail_input("{}: \"{}\" has {} rows, expected a multiple of the {} query groups", in.path(), rows,
               in.size(rows, 0), groups);
  if (cross_heads <= 0 || offsets % (2 * cross_heads * levels) != 0)
    fail_input(
        "{}: {} sampling offsets, expected a multiple of 2 x {} heads x {} levels (--set {}cross_heads=...?)",
        in.path(), offsets, cross_heads, levels, own);
  in.set(t + "hidden_dim", dim);
  in.set(t + "heads", heads);
  in.set(own + "cross_heads", cross_heads);
  in.set(t + "levels", levels);
  in.set(t + "decoder_points", offsets / (2 * cross_heads * levels));
  in.set(t + "decoder_layers", in.count(layer, ".linear1.weight"));
  in.set(t + "ffn_dim", in.size(layer + "0.linear1.weight", 0));
  in.set(t + "queries", in.size(rows, 0) / groups);
  in.set(t + "extra_query_groups", groups - 1);
  in.set(own + "projector_blocks", in.count(fusion + "m.", ".cv1.conv.weight"));
  in.set(own + "projector_norm", in.has(fusion + "cv1.bn.running_mean") ? "batch" : "layer");
  in.expect_in_json<std::string>("activation_function", "silu");
  in.expect_in_json<std::string>("decoder_activation_function", "relu");
  in.expect_in_json<double>("hidden_expansion", 0.5);
  infer_classes(in, {"class_embed.weight"}, 0);
  return true;
}

void infer_square_images(Inference& in, int64_t side) {
  for (const char* field : {"data.val_height", "data.val_width"}) in.set(field, side);
}

std::vector<int64_t> infer_blocks(Inference& in, const std::string& name, const std::vector<int64_t>& usual,
                                  const std::string& field) {
  const auto said = in.json().lists.find("backbone_config." + name);
  if (said != in.json().lists.end()) return said->second;
  in.assumed.push_back(fmt::format("{}: {}", field, usual));
  return usual;
}

bool infer_lw_detr(Inference& in) {
  if (!in.has(std::string(kLwDetrBackbone) + "blocks.0.gamma_1") || !infer_lw_detr_parts(in)) return false;
  const std::string b = "model.backbone.";
  const bool small = in.count(std::string(kLwDetrBackbone) + "blocks.", ".norm1.weight") <= 6;
  using Blocks = std::vector<int64_t>;
  in.set(b + "outputs",
         infer_blocks(in, "out_indices", small ? Blocks{2, 4, 6} : Blocks{3, 5, 6, 10}, b + "outputs"));
  in.set(b + "arg.windowed_blocks",
         infer_blocks(in, "window_block_indices", small ? Blocks{0, 2, 4} : Blocks{0, 1, 3, 6, 7, 9},
                      b + "arg.windowed_blocks"));
  const auto windows = in.json().find<int64_t>("backbone_config.num_windows");  // the total number of windows
  in.set(b + "arg.windows", windows ? std::llround(std::sqrt(static_cast<double>(*windows))) : 4);
  infer_square_images(in, 640);
  return true;
}

}  // namespace saccade
