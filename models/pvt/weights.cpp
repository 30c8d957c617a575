// The names of Hugging Face's PVT; the official ones are ours.
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

const WeightRules kPvtNames = [] {
  const std::string patches = "encoder.patch_embeddings.*.", block = "encoder.block.*.*.", to = "block+.*.";
  return weight_rules({
      {patches + "position_embeddings", "pos_embed+"},
      {patches + "cls_token", "cls_token"},
      {patches + "projection.", "patch_embed+.proj."},
      {patches + "layer_norm.", "patch_embed+.norm."},
      {block + "layer_norm_1.", to + "norm1."},
      {block + "layer_norm_2.", to + "norm2."},
      {block + "attention.self.query.", to + "attn.q."},
      {block + "attention.self.[key|value].", to + "attn.kv."},
      {block + "attention.self.(sequence_reduction|sr).", to + "attn.sr."},
      {block + "attention.self.layer_norm.", to + "attn.norm."},
      {block + "attention.output.dense.", to + "attn.proj."},
      {block + "mlp.dense1.", to + "mlp.fc1."},
      {block + "mlp.dense2.", to + "mlp.fc2."},
      {"encoder.layer_norm.", "norm."},
      {"classifier.", "head."},
  });
}();

[[maybe_unused]] const bool hugging_face_pvt =
    weight_namings().add({.name = "Hugging Face PVT",
                          .markers = {"patch_embeddings.0.position_embeddings"},
                          .prefix = "pvt.",
                          .rules = kPvtNames,
                          .scope = WeightNaming::kBackboneInDetectors});

}  // namespace
}  // namespace saccade
