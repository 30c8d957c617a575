// The names of Hugging Face's Swin and of timm's, torchvision's and mmdetection's,
// where they are not the official ones.
#include <fmt/format.h>

#include <algorithm>

#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

const WeightRules kSwinNames = weight_rules(
    {
        {"embeddings.patch_embeddings.projection.", "patch_embed.proj."},
        {"embeddings.norm.", "patch_embed.norm."},
        {"encoder.layers.*.blocks.*.attention.(self|relative_position_bias).relative_position_bias_table",
         "layers.*.blocks.*.attn.relative_position_bias_table"},
        {"encoder.layers.*.downsample.", "layers.*.downsample."},
        {"hidden_states_norms.stage*.", "norm-."},
        {"layernorm.", "norm."},
        {"classifier.", "head."},
    },
    vision_block_rules("encoder.layers.*.blocks.*.", "layers.*.blocks.*."));

// Since version 0.9 a stage begins with the merging of patches that officially ends the stage before.
const WeightRules kTimmSwinNames{
    {"layers.*.downsample.", "layers.-.downsample."},
    {"head.fc.", "head."},
};

// Whether the last stage ("layers.3") merges patches, which officially the last one does not.
bool is_timm_swin(const WeightsFile& file) {
  int64_t stages = 0, merging = 0;
  for (const WeightEntry& e : file.entries()) {
    size_t at = e.name.find("layers.");
    if (at == std::string::npos) continue;
    int64_t stage = std::atoll(e.name.c_str() + at + 7);
    stages = std::max(stages, stage);
    if (e.name.find(".downsample.reduction.") != std::string::npos) merging = std::max(merging, stage);
  }
  return stages > 0 && merging == stages;
}

[[maybe_unused]] const bool hugging_face_swin = weight_namings().add(
    {.name = "Hugging Face Swin",
     .markers = {"swin.embeddings.patch_embeddings", "attention.self.relative_position_bias_table"},
     .prefix = "swin.",
     .rules = kSwinNames,
     .scope = WeightNaming::kBackboneInDetectors});
[[maybe_unused]] const bool timm_swin =
    weight_namings().add({.name = "timm Swin", .rules = kTimmSwinNames, .recognise = is_timm_swin});

// Stages and the merging between them are numbered together, after the patches.
const WeightRules kTorchvisionSwinNames = [] {
  WeightRules rules{{"features.0.0.", "patch_embed.proj."}, {"features.0.2.", "patch_embed.norm."}};
  for (int stage = 0; stage < 4; ++stage) {
    const std::string from = fmt::format("features.{}.", 2 * stage + 1),
                      to = fmt::format("layers.{}.", stage);
    rules.push_back({from + "*.mlp.0.", to + "blocks.*.mlp.fc1."});
    rules.push_back({from + "*.mlp.3.", to + "blocks.*.mlp.fc2."});
    rules.push_back({from + "*.", to + "blocks.*."});
    rules.push_back({fmt::format("features.{}.", 2 * stage + 2), to + "downsample."});
  }
  return rules;
}();
[[maybe_unused]] const bool torchvision_swin =
    weight_namings().add({.name = "torchvision Swin",
                          .markers = {"features.1.0.attn.relative_position_bias_table"},
                          .rules = kTorchvisionSwinNames});

// Also within its detectors, whose other names are ours. Patches are merged in another order there.
const WeightRules kMmdetectionSwinNames = [] {
  WeightRules rules;
  for (const std::string place : {"", "backbone."}) {
    const std::string from = place + "stages.*.", to = place + "layers.*.";
    rules.push_back({place + "patch_embed.projection.", place + "patch_embed.proj."});
    rules.push_back({from + "blocks.*.attn.w_msa.", to + "blocks.*.attn."});
    rules.push_back({from + "blocks.*.ffn.layers.0.0.", to + "blocks.*.mlp.fc1."});
    rules.push_back({from + "blocks.*.ffn.layers.1.", to + "blocks.*.mlp.fc2."});
    rules.push_back({.from = from + "downsample.", .to = to + "downsample.", .is_unfolded = true});
    rules.push_back({from, to});
  }
  return rules;
}();
[[maybe_unused]] const bool mmdetection_swin =
    weight_namings().add({.name = "mmdetection Swin",
                          .markers = {"attn.w_msa.relative_position_bias_table"},
                          .rules = kMmdetectionSwinNames});

}  // namespace
}  // namespace saccade
