// The names of Hugging Face's DINOv2; those of the official files are ours.
#include "models/dinov2/dinov2.h"

namespace saccade {

WeightRules dinov2_rules(const std::string& from, const std::string& to) {
  const std::string layer = from + "encoder.layer.*.", block = to + "blocks.*.";
  return weight_rules({
      {from + "embeddings.cls_token", to + "cls_token"},
      {from + "embeddings.mask_token", to + "mask_token"},
      {from + "embeddings.register_tokens", to + "register_tokens"},
      {from + "embeddings.position_embeddings", to + "pos_embed"},
      {from + "embeddings.patch_embeddings.projection.", to + "patch_embed.proj."},
      {layer + "attention.attention.[query|key|value].", block + "attn.qkv."},
      {layer + "attention.[q|k|v]_proj.", block + "attn.qkv."},
      {layer + "attention.(output.dense|o_proj).", block + "attn.proj."},
      {layer + "layer_scale1.lambda1", block + "ls1.gamma"},
      {layer + "layer_scale2.lambda1", block + "ls2.gamma"},
      {layer, block},
      {from + "layernorm.", to + "norm."},
  });
}

namespace {

WeightRules with_head(WeightRules rules) {
  rules.push_back({"classifier.", "head."});
  return rules;
}

[[maybe_unused]] const bool hugging_face_dinov2 =
    weight_namings().add({.name = "Hugging Face DINOv2",
                          .file = __FILE__,
                          .markers = {"encoder.layer.0.layer_scale1.lambda1"},
                          .prefix = "dinov2.",
                          .rules = with_head(dinov2_rules("", ""))});

[[maybe_unused]] const bool hugging_face_registers =
    weight_namings().add({.name = "Hugging Face DINOv2 with registers",
                          .file = __FILE__,
                          .markers = {"dinov2_with_registers.encoder.layer.0.layer_scale1.lambda1"},
                          .prefix = "dinov2_with_registers.",
                          .rules = with_head(dinov2_rules("", ""))});

}  // namespace
}  // namespace saccade
