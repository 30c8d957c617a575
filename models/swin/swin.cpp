// Swin Transformer (Liu et al. 2021), with the official parameter names. As a backbone it is the official
// detection variant: each chosen stage's map goes through its own layer norm (`norm0`, `norm1`, ... by
// stage), and windows always keep their size and shift. As a classifier, a map no larger than the window is
// one window without a shift; then follow `norm`, the mean over the tokens and `head`. Images may have any
// size: they are padded with zeros to whole patches, and odd maps before a merging. The padding of a batch's
// smaller images is also zeros, and its tokens are like any other; only the detector masks them.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "models/backbone.h"
#include "models/common/patch_embed.h"
#include "models/common/pooled_classifier.h"
#include "models/common/stages.h"
#include "models/common/vision_block.h"
#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

struct SwinOptions {
  int64_t embed_dim = 96;  // channels of the first stage; each further stage has twice as many
  std::vector<int64_t> depths{2, 2, 6, 2};
  std::vector<int64_t> heads{3, 6, 12, 24};
  int64_t window = 7;
  int64_t patch = 4;
  double mlp_ratio = 4;
  double drop_path = 0;                   // of the last block
  Args attention;                         // section of the blocks' attention layer; `window` if empty
  std::vector<int64_t> attention_stages;  // stages that use it (1 is the first); empty for all
};

// Merges four neighbours into one token of twice the channels, in the order (0,0), (1,0), (0,1),
// (1,1) as (row, column).
class PatchMerging : public Module {
 public:
  explicit PatchMerging(int64_t dim) {
    norm_ = make_child<LayerNorm>("norm", 4 * dim);
    reduction_ = make_child<Linear>("reduction", 4 * dim, 2 * dim, vision_linear(false));
  }
  Var forward(const Var& x) const {
    Var y = pad_map(x, 2);
    int64_t N = y.dim(0), H = y.dim(1) / 2, W = y.dim(2) / 2, C = y.dim(3);
    y = permute(reshape(y, {N, H, 2, W, 2, C}), std::array{0, 1, 3, 4, 2, 5});
    return reduction_(norm_(reshape(y, {N, H, W, 4 * C})));
  }

 private:
  Child<LayerNorm> norm_;
  Child<Linear> reduction_;
};

// `layers.{i}`: blocks, and the merging at the start of the next stage.
class SwinStage : public Module {
 public:
  SwinStage(const SwinOptions& o, size_t stage, bool shrink, const std::vector<double>& rates) {
    int64_t dim = o.embed_dim << stage, number = static_cast<int64_t>(stage) + 1;
    bool chosen = o.attention_stages.empty() ||
                  std::ranges::find(o.attention_stages, number) != o.attention_stages.end();
    for (size_t b = 0; b < rates.size(); ++b) {
      Args window;
      window.set("window", o.window);
      window.set("shift", b % 2 == 0 ? int64_t{0} : o.window / 2);
      window.set("shrink", shrink);
      blocks_.push_back(make_child<VisionBlock>(
          fmt::format("blocks.{}", b), VisionBlockOptions{.shape = {.dim = dim, .heads = o.heads[stage]},
                                                          .mlp_ratio = o.mlp_ratio,
                                                          .drop_path = rates[b],
                                                          .attention = chosen ? o.attention : Args(),
                                                          .fallback = "window",
                                                          .defaults = window}));
    }
    if (stage + 1 < o.depths.size()) downsample_ = make_child<PatchMerging>("downsample", dim);
  }
  Var forward(const Var& map) const {
    MapSize size{map.dim(1), map.dim(2)};
    Var x = reshape(map, {map.dim(0), size.cells(), map.dim(3)});
    for (const auto& block : blocks_) x = block(x, FeatureLevels{size});
    return reshape(x, map.shape());
  }
  Var downsample(const Var& map) const { return downsample_(map); }

 private:
  std::vector<Child<VisionBlock>> blocks_;
  Child<PatchMerging> downsample_;
};

SwinOptions read_swin(const Args& args) {
  SwinOptions o;
  o.embed_dim = args.get_int("embed_dim", o.embed_dim, 1, 65536);
  o.depths = args.get_ints("depths", o.depths, 1, kMaxBlocks);
  o.heads = args.get_ints("heads", o.heads, 1, 65536);
  o.window = args.get_int("window", o.window, 1, 1024);
  o.patch = args.get_int("patch", o.patch, 1, 1024);
  o.mlp_ratio = args.get_float("mlp_ratio", o.mlp_ratio, 0.01, 1000);
  o.drop_path = args.get_float("drop_path", o.drop_path, 0, 1);
  o.attention = args.get_section("attention");
  o.attention_stages = args.get_ints("attention_stages", {});
  if (o.depths.empty() || o.depths.size() > kMaxStages)
    fail_input("{}.depths: {} stages, expected 1 to {}", args.path(), o.depths.size(), kMaxStages);
  if (o.heads.size() != o.depths.size())
    fail_input("{}.heads: got {} numbers for {} stages, expected one per stage", args.path(), o.heads.size(),
               o.depths.size());
  for (int64_t s : o.attention_stages)
    if (s < 1 || s > static_cast<int64_t>(o.depths.size()))
      fail_input("{}.attention_stages: stage {} does not exist, expected 1 to {}", args.path(), s,
                 o.depths.size());
  for (size_t s = 0; s < o.heads.size(); ++s)
    if ((o.embed_dim << s) % o.heads[s] != 0)
      fail_input("{}.heads: {} heads in stage {}, expected a divisor of its {} channels", args.path(),
                 o.heads[s], s + 1, o.embed_dim << s);
  return o;
}

class Swin : public Backbone {
 public:
  // classifier: the only output, the last stage's, uses the classifier's norm
  Swin(const SwinOptions& o, const std::vector<int64_t>& outputs, bool classifier) : outputs_(outputs) {
    patch_embed_ = make_child<PatchEmbed>("patch_embed", o.patch, o.embed_dim, true);
    auto rates = drop_path_rates(o.depths, o.drop_path);
    for (size_t s = 0; s < o.depths.size(); ++s) {
      stages_.push_back(make_child<SwinStage>(fmt::format("layers.{}", s), o, s, classifier, rates[s]));
      stage_channels_.push_back(o.embed_dim << s);
    }
    for (int64_t stage : outputs_)
      norms_.push_back(make_child<LayerNorm>(classifier ? "norm" : fmt::format("norm{}", stage - 1),
                                             stage_channels_[static_cast<size_t>(stage - 1)]));
  }
  std::vector<Var> forward(const Var& images) override {
    std::vector<Var> maps;
    for (size_t s = 0; s < static_cast<size_t>(outputs_.back()); ++s)
      maps.push_back(stages_[s](s == 0 ? patch_embed_(images) : stages_[s - 1]->downsample(maps.back())));
    maps = at_stages(maps, outputs_);
    for (size_t i = 0; i < maps.size(); ++i) maps[i] = norms_[i](maps[i]);
    return maps;
  }
  std::vector<int64_t> channels() const override { return at_stages(stage_channels_, outputs_); }

 private:
  std::vector<int64_t> outputs_, stage_channels_;
  Child<PatchEmbed> patch_embed_;
  std::vector<Child<SwinStage>> stages_;
  std::vector<Child<LayerNorm>> norms_;  // one per output
};

std::shared_ptr<Backbone> build_swin(const Args& args, const std::vector<int64_t>& default_outputs) {
  SwinOptions options = read_swin(args);
  auto outputs = read_outputs(args, default_outputs, std::ssize(options.depths));
  args.finish();
  return std::make_shared<Swin>(options, outputs, false);
}

std::shared_ptr<Classifier> build_swin_classifier(const Args& args, int64_t num_classes) {
  SwinOptions options = read_swin(args);
  args.finish();
  auto body = std::make_shared<Swin>(options, std::vector{std::ssize(options.depths)}, true);
  return std::make_shared<PooledClassifier>("SwinClassifier", body, "head", num_classes, vision_linear());
}

// Returns the side in pixels of an image whose last map is one window, or nothing if it is no Swin.
std::optional<int64_t> infer_swin_shape(Inference& in, const std::string& prefix) {
  const std::string b = "model.backbone.arg.", patches = prefix + "patch_embed.proj.weight",
                    first = prefix + "layers.0.blocks.0.";
  const std::string table = "attn.relative_position_bias_table";
  if (!in.has(patches) || !in.has(first + table) || !in.has(first + "mlp.fc1.weight")) return std::nullopt;
  std::vector<int64_t> depths, heads;
  auto stage = [&] { return fmt::format("{}layers.{}.blocks.", prefix, depths.size()); };
  while (in.has(stage() + "0." + table)) {
    heads.push_back(in.size(stage() + "0." + table, 1));
    depths.push_back(in.count(stage(), ".norm1.weight"));
  }
  const auto places = static_cast<double>(in.size(first + table, 0));  // (2 window - 1) squared
  const int64_t window = (std::llround(std::sqrt(places)) + 1) / 2, dim = in.size(patches, 0);
  const int64_t patch = in.size(patches, 2);
  in.set(b + "embed_dim", dim);
  in.set(b + "patch", patch);
  in.set(b + "depths", depths);
  in.set(b + "heads", heads);
  expect_vision_json(in);
  in.set(b + "window", window);
  in.set(b + "mlp_ratio",
         static_cast<double>(in.size(first + "mlp.fc1.weight", 0)) / static_cast<double>(dim));
  return (window * patch) << (depths.size() - 1);
}

bool infer_swin(Inference& in, const std::string& prefix) {
  if (!infer_swin_shape(in, prefix)) return false;
  std::vector<int64_t> outputs;
  for (int64_t stage = 1; stage <= static_cast<int64_t>(kMaxStages); ++stage)
    if (in.has(fmt::format("{}norm{}.weight", prefix, stage - 1))) outputs.push_back(stage);
  in.set("model.backbone.outputs", outputs);
  return true;
}

bool infer_swin_classifier(Inference& in) {
  if (!in.has("head.weight")) return false;
  const auto side = infer_swin_shape(in, "");
  if (!side) return false;
  const auto said = in.json().find<int64_t>("image_size");
  infer_classes(in, "head.", {.side = said.value_or(*side), .center = 0.9});
  return true;
}

SACCADE_REGISTER_BACKBONE(swin, build_swin, build_swin_classifier, infer_swin, false, infer_swin_classifier);

// The names of Hugging Face's Swin and of timm's, torchvision's and mmdetection's,
// if they are not the official ones.
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

// Since version 0.9 a stage begins with the merging of patches that officially ends the previous stage.
const WeightRules kTimmSwinNames{
    {"layers.*.downsample.", "layers.-.downsample."},
    {"head.fc.", "head."},
};

// Returns whether the last stage ("layers.3") merges patches, which officially the last one does not.
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

// Also applies within its detectors, whose other names are ours. Patches are merged in another order there.
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
