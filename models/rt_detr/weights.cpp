// The names of RT-DETR's first version and of Hugging Face, and the inference of the configuration from the
// weights.
#include "models/common/detr_weights.h"
#include "models/rt_detr/rt_detr.h"

namespace saccade {
namespace {

constexpr const char* kBackbone = "backbone.";

// Version 1 has numbers where version 2 has names.
const WeightRules kNumberedNames = weight_rules({
    {"encoder.input_proj.*.0.", "encoder.input_proj.*.conv."},
    {"encoder.input_proj.*.1.", "encoder.input_proj.*.norm."},
    {"decoder.enc_output.0.", "decoder.enc_output.proj."},
    {"decoder.enc_output.1.", "decoder.enc_output.norm."},
});

const std::string kStage = "model.backbone.model.encoder.stages.*.layers.*.",
                  kBlock = "backbone.res_layers.*.blocks.*.", kLayer = "model.decoder.layers.*.",
                  kOurLayer = "decoder.decoder.layers.*.",
                  kAttention = "model.encoder.(encoder|aifi).*.layers.*.",
                  kOurAttention = "encoder.encoder.*.layers.*.";

const WeightRules kHuggingFaceNames = weight_rules({
    {"model.backbone.model.embedder.embedder.*.convolution.", "backbone.conv1.conv1_+.conv."},
    {"model.backbone.model.embedder.embedder.*.normalization.", "backbone.conv1.conv1_+.norm."},
    {kStage + "layer.0.convolution.", kBlock + "branch2a.conv."},
    {kStage + "layer.0.normalization.", kBlock + "branch2a.norm."},
    {kStage + "layer.1.convolution.", kBlock + "branch2b.conv."},
    {kStage + "layer.1.normalization.", kBlock + "branch2b.norm."},
    {kStage + "layer.2.convolution.", kBlock + "branch2c.conv."},
    {kStage + "layer.2.normalization.", kBlock + "branch2c.norm."},
    {kStage + "shortcut.convolution.", kBlock + "short.conv."},
    {kStage + "shortcut.normalization.", kBlock + "short.norm."},
    {kStage + "shortcut.1.convolution.", kBlock + "short.conv.conv."},
    {kStage + "shortcut.1.normalization.", kBlock + "short.conv.norm."},
    {"model.encoder_input_proj.*.0.", "encoder.input_proj.*.conv."},
    {"model.encoder_input_proj.*.1.", "encoder.input_proj.*.norm."},
    {kAttention + "self_attn.[q|k|v]_proj.", kOurAttention + "self_attn.in_proj_"},
    {kAttention + "self_attn.(out_proj|o_proj).", kOurAttention + "self_attn.out_proj."},
    {kAttention + "self_attn_layer_norm.", kOurAttention + "norm1."},
    {kAttention + "final_layer_norm.", kOurAttention + "norm2."},
    {kAttention + "(fc1|mlp.fc1).", kOurAttention + "linear1."},
    {kAttention + "(fc2|mlp.fc2).", kOurAttention + "linear2."},
    {"model.encoder.", "encoder."},
    {"model.decoder_input_proj.*.0.", "decoder.input_proj.*.conv."},
    {"model.decoder_input_proj.*.1.", "decoder.input_proj.*.norm."},
    {kLayer + "self_attn.[q|k|v]_proj.", kOurLayer + "self_attn.in_proj_"},
    {kLayer + "self_attn.(out_proj|o_proj).", kOurLayer + "self_attn.out_proj."},
    {kLayer + "encoder_attn.", kOurLayer + "cross_attn."},
    {kLayer + "self_attn_layer_norm.", kOurLayer + "norm1."},
    {kLayer + "encoder_attn_layer_norm.", kOurLayer + "norm2."},
    {kLayer + "final_layer_norm.", kOurLayer + "norm3."},
    {kLayer + "(fc1|mlp.fc1).", kOurLayer + "linear1."},
    {kLayer + "(fc2|mlp.fc2).", kOurLayer + "linear2."},
    {"model.decoder.query_pos_head.", "decoder.query_pos_head."},
    {"(model.decoder.class_embed|class_embed).", "decoder.dec_score_head."},
    {"(model.decoder.bbox_embed|bbox_embed).", "decoder.dec_bbox_head."},
    {"model.enc_output.0.", "decoder.enc_output.proj."},
    {"model.enc_output.1.", "decoder.enc_output.norm."},
    {"model.", "decoder."},
});

[[maybe_unused]] const bool rt_detr_v1 = weight_namings().add({.name = "official RT-DETR, version 1",
                                                               .markers = {"decoder.enc_output.0.weight"},
                                                               .rules = kNumberedNames,
                                                               .scope = WeightNaming::kDetector});
[[maybe_unused]] const bool hugging_face_rt_detr =
    weight_namings().add({.name = "Hugging Face RT-DETR",
                          .markers = {"model.decoder_input_proj.0.0.weight"},
                          .rules = kHuggingFaceNames,
                          .scope = WeightNaming::kDetector,
                          .has_copies = true});

// Returns a tensor's first size divided by `of`; throws InputError naming the tensor if that is not whole.
int64_t multiple(const Inference& in, const std::string& name, int64_t of) {
  const int64_t size = in.size(name, 0);
  if (of <= 0 || size % of != 0)
    fail_input("{}: \"{}\" has {} rows, expected a multiple of {} (--set model.transformer.heads=...?)",
               in.path(), name, size, of);
  return size / of;
}

// Checks the values of Hugging Face's config.json for which this program supports only one choice.
void check_json(const Inference& in) {
  in.expect_in_json<std::string>("activation_function", "silu");
  in.expect_in_json<std::string>("encoder_activation_function", "gelu");
  in.expect_in_json<double>("layer_norm_eps", 1e-5);
  in.expect_in_json<double>("batch_norm_eps", 1e-5);
  in.expect_in_json<double>("positional_encoding_temperature", 10000);
  in.expect_in_json<bool>("normalize_before", false);
  in.expect_in_json<bool>("learn_initial_query", false);
}

}  // namespace

const WeightRules& hugging_face_rt_detr_names() { return kHuggingFaceNames; }

InferredHybrid infer_hybrid(Inference& in, const std::string& own) {
  infer_backbone(in, kBackbone);
  const std::string t = "model.transformer.", hybrid = own + "hybrid_encoder.",
                    layer = "decoder.decoder.layers.", attention = "encoder.encoder.0.layers.";
  const Args& given = in.given().get_section("transformer");
  InferredHybrid found{.heads = given.has("heads") ? given.get_int("heads", 0)
                                                   : in.argument_or<int64_t>("nheads", 8, t + "heads"),
                       .levels = in.count("encoder.input_proj.", ".conv.weight"),
                       .dim = in.size("encoder.lateral_convs.0.conv.weight", 0)};
  in.set(t + "heads", found.heads);
  in.set(t + "levels", found.levels);
  in.set(t + "hidden_dim", in.size(layer + "0.norm1.weight", 0));
  in.set(t + "ffn_dim", in.size(layer + "0.linear1.weight", 0));
  in.set(t + "encoder_layers", in.count(attention, ".linear1.weight"));
  in.set(t + "decoder_layers", in.count(layer, ".linear1.weight"));
  // The official code reads rectangular maps differently from transformers.
  if (in.naming().find("Hugging Face") == std::string::npos) in.set(hybrid + "transposed_position", true);
  if (!given.has("queries"))
    in.set(t + "queries", in.argument_or<int64_t>("num_queries", 300, t + "queries"));
  // The embedding does not tell the number of queries; the recipes have 100.
  if (in.has("decoder.denoising_class_embed.weight")) in.set(t + "denoising.queries", 100);
  in.set(hybrid + "dim", found.dim);
  if (in.has(attention + "0.linear1.weight"))
    in.set(hybrid + "ffn_dim", in.size(attention + "0.linear1.weight", 0));
  check_json(in);
  infer_classes(in, {"decoder.dec_score_head.0.weight"}, 0);
  // The published models' images are stretched and in [0, 1].
  in.set("data.val_height", 640);
  in.set("data.val_width", 640);
  in.set("data.mean", std::vector<double>{0, 0, 0});
  in.set("data.std", std::vector<double>{1, 1, 1});
  return found;
}

bool infer_rt_detr(Inference& in) {
  const std::string block = "encoder.fpn_blocks.0.conv1.conv.weight", t = "model.transformer.",
                    own = "model.rt_detr.", layer = "decoder.decoder.layers.";
  if (!in.has("decoder.dec_score_head.0.weight") || !in.has(block)) return false;
  const InferredHybrid found = infer_hybrid(in, own);
  const Args& given_own = in.given().get_section("rt_detr");
  in.set(t + "decoder_points",
         multiple(in, layer + "0.cross_attn.sampling_offsets.weight", 2 * found.heads * found.levels));
  const int64_t position_layers = in.count("decoder.query_pos_head.layers.", ".weight");
  in.set(own + "query_position_layers", position_layers);
  // DEIM changes both together, and the activation leaves no trace of its own.
  if (position_layers == 3 && !given_own.has("decoder_activation"))
    in.set(own + "decoder_activation", "silu");

  if (const auto layer_index = in.json().find<int64_t>("eval_idx"); layer_index && *layer_index >= 0)
    in.set(own + "eval_layers", *layer_index + 1);
  if (const auto activation = in.json().find<std::string>("decoder_activation_function");
      activation && !given_own.has("decoder_activation"))
    in.set(own + "decoder_activation", *activation);

  const int64_t hidden = in.size(block, 0);
  in.set(own + "hybrid_encoder.expansion", static_cast<double>(hidden) / static_cast<double>(found.dim));
  // R50-m is the only model with both.
  if (found.dim != hidden && in.count(layer, ".linear1.weight") == 6 && !given_own.has("eval_layers") &&
      !in.json().find<int64_t>("eval_idx")) {
    in.set(own + "eval_layers", 3);
    in.assumed.push_back(own + "eval_layers: 3");
  }
  // Version 2's weights named "dsp" use discrete sampling, which leaves no trace in them.
  if (!given_own.has("decoder_sampling")) {
    const auto method = in.json().find<std::string>("decoder_method");
    if (method == "discrete") {
      in.set(own + "decoder_sampling", "discrete");
    } else {
      in.expect_in_json<std::string>("decoder_method", "default");
      if (!method && in.naming() != "official RT-DETR, version 1")
        in.assumed.push_back(own + "decoder_sampling: bilinear");
    }
  }
  return true;
}

}  // namespace saccade
