#include "models/weights/weight_names.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>

#include "core/tensor/error.h"

namespace saccade {
namespace {

// A rule replaces the start of a name. In `from`, a star stands for what is between two dots. In `to`, the
// stars' texts follow in order: * as it is, + and - as the number one higher or lower. `part`: the tensor is
// this third of a fused one.
struct Rule {
  const char* from;
  const char* to;
  int part = -1;
};

constexpr const char* kOfficialBackbone = "backbone.0.body.";

// ---- Hugging Face -----------------------------------------------------------------------------------------

// Both names where version 5 of transformers has others in memory than in its files.
const std::vector<Rule> kResNet{
    {"embedder.embedder.convolution.", "conv1."},
    {"embedder.embedder.normalization.", "bn1."},
    {"encoder.stages.*.layers.*.shortcut.convolution.", "layer+.*.downsample.0."},
    {"encoder.stages.*.layers.*.shortcut.normalization.", "layer+.*.downsample.1."},
    {"encoder.stages.*.layers.*.layer.*.convolution.", "layer+.*.conv+."},
    {"encoder.stages.*.layers.*.layer.*.normalization.", "layer+.*.bn+."},
    {"classifier.1.", "fc."},
};

const std::vector<Rule> kDetr{
    {"model.backbone.position_embedding.row_embeddings.", "backbone.1.row_embed."},
    {"model.backbone.position_embedding.column_embeddings.", "backbone.1.col_embed."},
    {"model.position_embedding.row_embeddings.", "backbone.1.row_embed."},
    {"model.position_embedding.column_embeddings.", "backbone.1.col_embed."},
    {"model.backbone.conv_encoder.model.", kOfficialBackbone},
    {"model.backbone.model.", kOfficialBackbone},
    {"model.input_projection.", "input_proj."},
    {"model.query_position_embeddings.", "query_embed."},
    {"model.encoder.layers.*.self_attn.q_proj.", "transformer.encoder.layers.*.self_attn.in_proj_", 0},
    {"model.encoder.layers.*.self_attn.k_proj.", "transformer.encoder.layers.*.self_attn.in_proj_", 1},
    {"model.encoder.layers.*.self_attn.v_proj.", "transformer.encoder.layers.*.self_attn.in_proj_", 2},
    {"model.encoder.layers.*.self_attn.out_proj.", "transformer.encoder.layers.*.self_attn.out_proj."},
    {"model.encoder.layers.*.self_attn.o_proj.", "transformer.encoder.layers.*.self_attn.out_proj."},
    {"model.encoder.layers.*.self_attn_layer_norm.", "transformer.encoder.layers.*.norm1."},
    {"model.encoder.layers.*.fc1.", "transformer.encoder.layers.*.linear1."},
    {"model.encoder.layers.*.fc2.", "transformer.encoder.layers.*.linear2."},
    {"model.encoder.layers.*.mlp.fc1.", "transformer.encoder.layers.*.linear1."},
    {"model.encoder.layers.*.mlp.fc2.", "transformer.encoder.layers.*.linear2."},
    {"model.encoder.layers.*.final_layer_norm.", "transformer.encoder.layers.*.norm2."},
    {"model.encoder.layernorm.", "transformer.encoder.norm."},
    {"model.decoder.layers.*.self_attn.q_proj.", "transformer.decoder.layers.*.self_attn.in_proj_", 0},
    {"model.decoder.layers.*.self_attn.k_proj.", "transformer.decoder.layers.*.self_attn.in_proj_", 1},
    {"model.decoder.layers.*.self_attn.v_proj.", "transformer.decoder.layers.*.self_attn.in_proj_", 2},
    {"model.decoder.layers.*.self_attn.out_proj.", "transformer.decoder.layers.*.self_attn.out_proj."},
    {"model.decoder.layers.*.self_attn.o_proj.", "transformer.decoder.layers.*.self_attn.out_proj."},
    {"model.decoder.layers.*.self_attn_layer_norm.", "transformer.decoder.layers.*.norm1."},
    {"model.decoder.layers.*.encoder_attn.q_proj.", "transformer.decoder.layers.*.multihead_attn.in_proj_",
     0},
    {"model.decoder.layers.*.encoder_attn.k_proj.", "transformer.decoder.layers.*.multihead_attn.in_proj_",
     1},
    {"model.decoder.layers.*.encoder_attn.v_proj.", "transformer.decoder.layers.*.multihead_attn.in_proj_",
     2},
    {"model.decoder.layers.*.encoder_attn.out_proj.",
     "transformer.decoder.layers.*.multihead_attn.out_proj."},
    {"model.decoder.layers.*.encoder_attn.o_proj.", "transformer.decoder.layers.*.multihead_attn.out_proj."},
    {"model.decoder.layers.*.encoder_attn_layer_norm.", "transformer.decoder.layers.*.norm2."},
    {"model.decoder.layers.*.fc1.", "transformer.decoder.layers.*.linear1."},
    {"model.decoder.layers.*.fc2.", "transformer.decoder.layers.*.linear2."},
    {"model.decoder.layers.*.mlp.fc1.", "transformer.decoder.layers.*.linear1."},
    {"model.decoder.layers.*.mlp.fc2.", "transformer.decoder.layers.*.linear2."},
    {"model.decoder.layers.*.final_layer_norm.", "transformer.decoder.layers.*.norm3."},
    {"model.decoder.layernorm.", "transformer.decoder.norm."},
    {"class_labels_classifier.", "class_embed."},
    {"bbox_predictor.", "bbox_embed."},
};

// The official decoder's norm1 belongs to the cross-attention, norm2 to the self-attention.
const std::vector<Rule> kDeformableDetr{
    {"model.backbone.conv_encoder.model.", kOfficialBackbone},
    {"model.backbone.model.", kOfficialBackbone},
    {"model.input_proj.", "input_proj."},
    {"model.level_embed", "transformer.level_embed"},
    {"model.query_position_embeddings.", "query_embed."},
    {"model.reference_points.", "transformer.reference_points."},
    {"model.enc_output.", "transformer.enc_output."},
    {"model.enc_output_norm.", "transformer.enc_output_norm."},
    {"model.pos_trans.", "transformer.pos_trans."},
    {"model.pos_trans_norm.", "transformer.pos_trans_norm."},
    {"model.encoder.layers.*.self_attn.", "transformer.encoder.layers.*.self_attn."},
    {"model.encoder.layers.*.self_attn_layer_norm.", "transformer.encoder.layers.*.norm1."},
    {"model.encoder.layers.*.fc1.", "transformer.encoder.layers.*.linear1."},
    {"model.encoder.layers.*.fc2.", "transformer.encoder.layers.*.linear2."},
    {"model.encoder.layers.*.mlp.fc1.", "transformer.encoder.layers.*.linear1."},
    {"model.encoder.layers.*.mlp.fc2.", "transformer.encoder.layers.*.linear2."},
    {"model.encoder.layers.*.final_layer_norm.", "transformer.encoder.layers.*.norm2."},
    {"model.decoder.layers.*.self_attn.q_proj.", "transformer.decoder.layers.*.self_attn.in_proj_", 0},
    {"model.decoder.layers.*.self_attn.k_proj.", "transformer.decoder.layers.*.self_attn.in_proj_", 1},
    {"model.decoder.layers.*.self_attn.v_proj.", "transformer.decoder.layers.*.self_attn.in_proj_", 2},
    {"model.decoder.layers.*.self_attn.out_proj.", "transformer.decoder.layers.*.self_attn.out_proj."},
    {"model.decoder.layers.*.self_attn.o_proj.", "transformer.decoder.layers.*.self_attn.out_proj."},
    {"model.decoder.layers.*.self_attn_layer_norm.", "transformer.decoder.layers.*.norm2."},
    {"model.decoder.layers.*.encoder_attn.", "transformer.decoder.layers.*.cross_attn."},
    {"model.decoder.layers.*.encoder_attn_layer_norm.", "transformer.decoder.layers.*.norm1."},
    {"model.decoder.layers.*.fc1.", "transformer.decoder.layers.*.linear1."},
    {"model.decoder.layers.*.fc2.", "transformer.decoder.layers.*.linear2."},
    {"model.decoder.layers.*.mlp.fc1.", "transformer.decoder.layers.*.linear1."},
    {"model.decoder.layers.*.mlp.fc2.", "transformer.decoder.layers.*.linear2."},
    {"model.decoder.layers.*.final_layer_norm.", "transformer.decoder.layers.*.norm3."},
    {"model.decoder.bbox_embed.", "transformer.decoder.bbox_embed."},
    {"model.decoder.class_embed.", "transformer.decoder.class_embed."},
};

const std::vector<Rule> kVit{
    {"embeddings.cls_token", "cls_token"},
    {"embeddings.distillation_token", "dist_token"},
    {"embeddings.position_embeddings", "pos_embed"},
    {"embeddings.patch_embeddings.projection.", "patch_embed.proj."},
    {"encoder.layer.*.attention.attention.query.", "blocks.*.attn.qkv.", 0},
    {"encoder.layer.*.attention.attention.key.", "blocks.*.attn.qkv.", 1},
    {"encoder.layer.*.attention.attention.value.", "blocks.*.attn.qkv.", 2},
    {"encoder.layer.*.attention.output.dense.", "blocks.*.attn.proj."},
    {"encoder.layer.*.intermediate.dense.", "blocks.*.mlp.fc1."},
    {"encoder.layer.*.output.dense.", "blocks.*.mlp.fc2."},
    {"encoder.layer.*.layernorm_before.", "blocks.*.norm1."},
    {"encoder.layer.*.layernorm_after.", "blocks.*.norm2."},
    {"layers.*.attention.q_proj.", "blocks.*.attn.qkv.", 0},
    {"layers.*.attention.k_proj.", "blocks.*.attn.qkv.", 1},
    {"layers.*.attention.v_proj.", "blocks.*.attn.qkv.", 2},
    {"layers.*.attention.o_proj.", "blocks.*.attn.proj."},
    {"layers.*.mlp.fc1.", "blocks.*.mlp.fc1."},
    {"layers.*.mlp.fc2.", "blocks.*.mlp.fc2."},
    {"layers.*.layernorm_before.", "blocks.*.norm1."},
    {"layers.*.layernorm_after.", "blocks.*.norm2."},
    {"layernorm.", "norm."},
    {"classifier.", "head."},
    {"cls_classifier.", "head."},
    {"distillation_classifier.", "head_dist."},
};

const std::vector<Rule> kSwin{
    {"embeddings.patch_embeddings.projection.", "patch_embed.proj."},
    {"embeddings.norm.", "patch_embed.norm."},
    {"encoder.layers.*.blocks.*.attention.self.query.", "layers.*.blocks.*.attn.qkv.", 0},
    {"encoder.layers.*.blocks.*.attention.self.key.", "layers.*.blocks.*.attn.qkv.", 1},
    {"encoder.layers.*.blocks.*.attention.self.value.", "layers.*.blocks.*.attn.qkv.", 2},
    {"encoder.layers.*.blocks.*.attention.self.relative_position_bias_table",
     "layers.*.blocks.*.attn.relative_position_bias_table"},
    {"encoder.layers.*.blocks.*.attention.output.dense.", "layers.*.blocks.*.attn.proj."},
    {"encoder.layers.*.blocks.*.intermediate.dense.", "layers.*.blocks.*.mlp.fc1."},
    {"encoder.layers.*.blocks.*.output.dense.", "layers.*.blocks.*.mlp.fc2."},
    {"encoder.layers.*.blocks.*.attention.q_proj.", "layers.*.blocks.*.attn.qkv.", 0},
    {"encoder.layers.*.blocks.*.attention.k_proj.", "layers.*.blocks.*.attn.qkv.", 1},
    {"encoder.layers.*.blocks.*.attention.v_proj.", "layers.*.blocks.*.attn.qkv.", 2},
    {"encoder.layers.*.blocks.*.attention.o_proj.", "layers.*.blocks.*.attn.proj."},
    {"encoder.layers.*.blocks.*.attention.relative_position_bias.relative_position_bias_table",
     "layers.*.blocks.*.attn.relative_position_bias_table"},
    {"encoder.layers.*.blocks.*.mlp.fc1.", "layers.*.blocks.*.mlp.fc1."},
    {"encoder.layers.*.blocks.*.mlp.fc2.", "layers.*.blocks.*.mlp.fc2."},
    {"encoder.layers.*.blocks.*.layernorm_before.", "layers.*.blocks.*.norm1."},
    {"encoder.layers.*.blocks.*.layernorm_after.", "layers.*.blocks.*.norm2."},
    {"encoder.layers.*.downsample.", "layers.*.downsample."},
    {"layernorm.", "norm."},
    {"classifier.", "head."},
};

// ---- timm -------------------------------------------------------------------------------------------------

// Since version 0.9 a stage begins with the merging of patches that officially ends the stage before.
const std::vector<Rule> kTimmSwin{
    {"layers.*.downsample.", "layers.-.downsample."},
    {"head.fc.", "head."},
};

// ---- which table ------------------------------------------------------------------------------------------

// A naming is recognised by a tensor whose name contains `marker`. `prefix` is left out wherever a name has
// it.
struct Naming {
  const char* name;
  const char* marker;
  const char* prefix;
  const std::vector<Rule>* rules;
};
const Naming kNamings[] = {
    {"Hugging Face Deformable DETR", "model.level_embed", "", &kDeformableDetr},
    {"Hugging Face DETR", "class_labels_classifier.weight", "", &kDetr},
    {"Hugging Face DeiT", "deit.embeddings.cls_token", "deit.", &kVit},
    {"Hugging Face ViT", "vit.embeddings.cls_token", "vit.", &kVit},
    {"Hugging Face ViT", "embeddings.cls_token", "", &kVit},
    {"Hugging Face Swin", "swin.embeddings.patch_embeddings", "swin.", &kSwin},
    {"Hugging Face Swin", "attention.self.relative_position_bias_table", "", &kSwin},
    {"Hugging Face ResNet", "resnet.embedder.embedder", "resnet.", &kResNet},
    {"Hugging Face ResNet", "embedder.embedder.convolution.weight", "", &kResNet},
};
const Naming kTimmSwinNaming{"timm Swin", "", "", &kTimmSwin};

// Wrappers that put one prefix before every name.
constexpr const char* kWrappers[] = {"module.", "model.", "_orig_mod."};
// The box model inside of DETR's segmentation model.
constexpr std::string_view kInnerDetr = "detr.";

constexpr const char* kIgnored[] = {"num_batches_tracked", "total_ops", "total_params",
                                    "relative_position_index", "attn_mask"};

bool ends_as_ignored(const std::string& name) {
  std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  return std::find(std::begin(kIgnored), std::end(kIgnored), last) != std::end(kIgnored);
}

std::optional<std::string> renamed(const Rule& rule, std::string_view name) {
  std::vector<std::string_view> stars;
  for (std::string_view from = rule.from; !from.empty();) {
    if (from[0] == '*') {
      size_t length = std::min(name.find('.'), name.size());
      stars.push_back(name.substr(0, length));
      name.remove_prefix(length);
    } else {
      if (name.empty() || name[0] != from[0]) return std::nullopt;
      name.remove_prefix(1);
    }
    from.remove_prefix(1);
  }
  std::string out;
  size_t next = 0;
  for (std::string_view to = rule.to; !to.empty(); to.remove_prefix(1)) {
    if (to[0] != '*' && to[0] != '+' && to[0] != '-') {
      out += to[0];
      continue;
    }
    std::string_view star = stars[next++];
    int64_t number = 0;
    if (to[0] == '*') {
      out += star;
    } else {
      auto [end, error] = std::from_chars(star.data(), star.data() + star.size(), number);
      if (error != std::errc() || end != star.data() + star.size() || number > 1000) return std::nullopt;
      out += std::to_string(to[0] == '+' ? number + 1 : number - 1);
    }
  }
  return out + std::string(name);
}

struct Translated {
  std::string name;
  int part = -1;
};

Translated translate(const std::string& name, const Naming* naming) {
  if (!naming) return {name, -1};
  std::string_view rest = name;
  if (rest.starts_with(naming->prefix)) rest.remove_prefix(std::string_view(naming->prefix).size());
  for (const Rule& rule : *naming->rules) {
    std::optional<std::string> to = renamed(rule, rest);
    if (!to) continue;
    // A detector's backbone has torchvision's names (timm's are the same), or those of Hugging Face's ResNet.
    if (to->starts_with(kOfficialBackbone)) {
      std::string inner = to->substr(std::string_view(kOfficialBackbone).size());
      for (const Rule& r : kResNet)
        if (auto mapped = renamed(r, inner)) return {kOfficialBackbone + *mapped, -1};
    }
    return {*to, rule.part};
  }
  return {std::string(rest), -1};
}

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

// "module." and the like, when all names have them. Hugging Face's own "model." is none.
std::string wrappers_of(const WeightsFile& file, const Naming* naming) {
  bool has_own_model = naming && (naming->rules == &kDetr || naming->rules == &kDeformableDetr);
  std::string prefix;
  for (bool again = !file.entries().empty(); again;) {
    again = false;
    for (const char* wrapper : kWrappers) {
      if (has_own_model && wrapper == std::string_view("model.")) continue;
      std::string longer = prefix + wrapper;
      if (std::all_of(file.entries().begin(), file.entries().end(),
                      [&](const WeightEntry& e) { return e.name.starts_with(longer); })) {
        prefix = longer;
        again = true;
      }
    }
  }
  return prefix;
}

}  // namespace

const NamedWeight* OfficialWeights::find(const std::string& name) const {
  for (const NamedWeight& w : tensors)
    if (w.name == name) return &w;
  return nullptr;
}

OfficialWeights official_weights(const WeightsFile& file) {
  const Naming* naming = nullptr;
  for (const Naming& candidate : kNamings) {
    bool found = std::any_of(file.entries().begin(), file.entries().end(), [&](const WeightEntry& e) {
      return e.name.find(candidate.marker) != std::string::npos;
    });
    if (found && !naming) naming = &candidate;
  }
  if (!naming && is_timm_swin(file)) naming = &kTimmSwinNaming;
  const std::string wrapper = wrappers_of(file, naming);
  OfficialWeights out;
  out.naming = naming ? naming->name : "official";
  std::map<std::string, size_t> index;
  std::map<std::string, std::map<int, const WeightEntry*>> fused;
  for (const WeightEntry& e : file.entries()) {
    std::string_view name = std::string_view(e.name).substr(wrapper.size());
    if (name.starts_with(kInnerDetr)) name.remove_prefix(kInnerDetr.size());
    if (ends_as_ignored(e.name)) {
      out.ignored.push_back(e.name);
      continue;
    }
    Translated t = translate(std::string(name), naming);
    if (t.part < 0 || fused[t.name].empty()) {
      if (!index.emplace(t.name, out.tensors.size()).second)
        fail_input("{}: two tensors are \"{}\" under its official name, the second is \"{}\"", file.path(),
                   printable(t.name), printable(e.name));
      out.tensors.push_back({t.name, e.shape, {e.name}});
    }
    if (t.part >= 0) fused[t.name][t.part] = &e;
  }
  for (const auto& [name, parts] : fused) {
    if (parts.empty()) continue;
    NamedWeight& w = out.tensors[index.at(name)];
    if (parts.size() != 3)
      fail_input("{}: \"{}\" needs query, key and value, there are {} of them (\"{}\")", file.path(),
                 printable(name), parts.size(), printable(w.parts[0]));
    w.parts.clear();
    w.shape = parts.at(0)->shape;
    for (const auto& [part, e] : parts) {
      if (e->shape.rank() == 0 || e->shape != w.shape || e->dtype != parts.at(0)->dtype)
        fail_input("{}: \"{}\" is {} {}, but query is {} {}", file.path(), printable(e->name), e->dtype,
                   e->shape.to_string(), parts.at(0)->dtype, w.shape.to_string());
      w.parts.push_back(e->name);
    }
    w.shape[0] *= 3;
  }
  return out;
}

Tensor read_weight(const WeightsFile& file, const NamedWeight& weight) {
  if (weight.parts.size() == 1) return file.read(weight.parts[0]);
  Tensor first = file.read(weight.parts[0]);
  Tensor out = Tensor::empty(weight.shape, first.dtype());
  int64_t rows = first.dim(0);
  for (size_t i = 0; i < weight.parts.size(); ++i)
    out.slice(0, static_cast<int64_t>(i) * rows, static_cast<int64_t>(i + 1) * rows)
        .copy_from(i == 0 ? first : file.read(weight.parts[i]));
  return out;
}

}  // namespace saccade
