// The names of Hugging Face, and what the weights tell of the configuration.
#include "models/common/detr_weights.h"
#include "models/d_fine/decoder.h"
#include "models/rt_detr/rt_detr.h"

namespace saccade {
namespace {

// A convolution with its norm and learned affine step, under this name there and here.
void add_conv(WeightRules& rules, const std::string& from, const std::string& to) {
  rules.push_back({from + "convolution.", to + "conv."});
  rules.push_back({from + "normalization.", to + "bn."});
  rules.push_back({from + "lab.", to + "lab."});
}

WeightRules hugging_face_names() {
  const std::string backbone = "model.backbone.model.", stage = backbone + "encoder.stages.*.",
                    ours = "backbone.stages.*.";
  WeightRules rules;
  add_conv(rules, backbone + "embedder.*.", "backbone.stem.*.");
  add_conv(rules, stage + "downsample.", ours + "downsample.");
  add_conv(rules, stage + "blocks.*.*.*.", ours + "blocks.*.*.*.");      // layers and aggregation
  add_conv(rules, stage + "blocks.*.*.*.*.", ours + "blocks.*.*.*.*.");  // light layers
  const std::pair<const char*, const char*> parts[] = {{"conv1.", "cv1."},   {"csp_rep1.", "cv2.0."},
                                                       {"conv2.", "cv2.1."}, {"csp_rep2.", "cv3.0."},
                                                       {"conv3.", "cv3.1."}, {"conv4.", "cv4."}};
  for (const std::string block : {"encoder.fpn_blocks.*.", "encoder.pan_blocks.*."})
    for (const auto& [from, to] : parts) rules.push_back({"model." + block + from, block + to});
  rules.push_back({"model.encoder.downsample_convs.*.conv1.", "encoder.downsample_convs.*.0.cv1."});
  rules.push_back({"model.encoder.downsample_convs.*.conv2.", "encoder.downsample_convs.*.0.cv2."});
  for (const char* name : {"gateway.", "cross_attn."}) {
    const std::string there = std::string(name) == "cross_attn." ? "encoder_attn." : name;
    rules.push_back({"model.decoder.layers.*." + there, std::string("decoder.decoder.layers.*.") + name});
  }
  rules.push_back({"model.decoder.lqe_layers.", "decoder.decoder.lqe_layers."});
  for (const char* name : {"pre_bbox_head.", "up", "reg_scale"})
    rules.push_back({std::string("model.decoder.") + name, std::string("decoder.") + name});
  // Names of version 5 of transformers in memory.
  for (const char* number : {"0.", "1."}) {
    const std::string to = number[0] == '0' ? "linear1." : "linear2.";
    rules.push_back({std::string("model.encoder.aifi.*.layers.*.mlp.layers.") + number,
                     "encoder.encoder.*.layers.*." + to});
    rules.push_back(
        {std::string("model.decoder.layers.*.mlp.layers.") + number, "decoder.decoder.layers.*." + to});
  }
  const WeightRules& shared = hugging_face_rt_detr_names();
  rules.insert(rules.end(), shared.begin(), shared.end());
  return rules;
}

constexpr const char *kRtDetrV4 = "official RT-DETRv4", *kFeatureProjector = "encoder.feature_projector.";
constexpr const char* kQualityHead = "decoder.lqe_layers.0.reg_conf.layers.0.weight";

[[maybe_unused]] const bool hugging_face_d_fine =
    weight_namings().add({.name = "Hugging Face D-FINE",
                          .markers = {std::string("model.") + kQualityHead},
                          .rules = hugging_face_names(),
                          .scope = WeightNaming::kDetector,
                          .has_copies = true});

// D-FINE with SiLU, trained towards another network's features through a layer that is not used any more.
[[maybe_unused]] const bool official_rt_detr_v4 = weight_namings().add({.name = kRtDetrV4,
                                                                        .markers = {kFeatureProjector},
                                                                        .rules = {},
                                                                        .scope = WeightNaming::kDetector,
                                                                        .unused = {kFeatureProjector}});

}  // namespace

bool infer_d_fine(Inference& in) {
  if (!in.has(std::string("decoder.") + kQualityHead)) return false;
  const std::string t = "model.transformer.", own = "model.d_fine.", csp = "encoder.fpn_blocks.0.cv2.0.";
  const InferredHybrid found = infer_hybrid(in, own);
  if (found.levels == 2) in.set("model.backbone.outputs", std::vector<int64_t>{3, 4});
  const int64_t points =
      in.size("decoder.decoder.layers.0.cross_attn.attention_weights.weight", 0) / found.heads;
  // In all published models the second of three levels has as many as the others together,
  // and two have as many.
  if (found.levels == 3)
    in.set(t + "decoder_cross_attention.arg.level_points",
           std::vector<int64_t>{points / 4, points / 2, points / 4});
  else
    in.set(t + "decoder_points", points / found.levels);
  // Of channels that are rounded down twice.
  in.set(own + "hybrid_encoder.expansion",
         static_cast<double>(2 * in.size(csp + "conv1.conv.weight", 0)) / static_cast<double>(found.dim));
  in.set(own + "fusion_blocks", in.count(csp + "bottlenecks.", ".conv1.conv.weight"));
  in.set(own + "bins", in.size("decoder.dec_bbox_head.0.layers.2.weight", 0) / 4 - 1);
  // DEIM's weights leave no trace of theirs.
  if (!in.given().get_section("d_fine").has("decoder_activation")) {
    const auto activation = in.json().find<std::string>("decoder_activation_function");
    if (activation)
      in.set(own + "decoder_activation", *activation);
    else if (in.naming() == kRtDetrV4)
      in.set(own + "decoder_activation", "silu");
    else
      in.assumed.push_back(own + "decoder_activation: relu");
  }
  in.expect_in_json<std::string>("decoder_method", "default");
  in.expect_in_json<double>("decoder_offset_scale", 0.5);
  return true;
}

}  // namespace saccade
