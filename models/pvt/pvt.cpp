// PVT (Wang et al. 2021, "Pyramid Vision Transformer", its first version), with the official parameter names:
// every stage is a patch embedding, learned positions and pre-norm blocks of spatial-reduction attention. As
// a classifier, its last stage has a class token in front, which `norm` and `head` read. As a backbone it is
// the official detection variant: no class token (its position, the first of the last stage, stays unused)
// and no norms after the stages.
// Images may have any size: they are padded with zeros to multiples of patches and reductions, and the
// positions are resized bilinearly for other grids. (The official code crops instead, which is the same for
// sides that are multiples of 32. If a stage has as many cells as the first one in training but another
// shape, it forgets to resize; this code does not.)
#include <algorithm>
#include <cmath>
#include <optional>

#include "layers/position_tables.h"
#include "models/backbone.h"
#include "models/common/patch_embed.h"
#include "models/common/stages.h"
#include "models/common/vision_block.h"
#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

struct PvtOptions {
  std::vector<int64_t> depths, dims, heads, mlp_ratios, reductions;  // one per stage
  int64_t image_size = 224;                                          // size for which the positions are made
  double drop_path = 0;                                              // of the last block
  Args attention;  // section of the blocks' attention layer; `spatial_reduction` if empty
};

// Side of a token of the first stage in pixels; each further stage halves the map.
constexpr int64_t kPvtPatch = 4;
// For the norms in the blocks and the last norm; those of patches and reductions use PyTorch's 1e-5.
constexpr double kPvtNormEps = 1e-6;
constexpr int64_t kPvtHeadChannels = 64;  // in all official models

// `patch_embed{s}`, `pos_embed{s}` and `block{s}`, s from 1.
class PvtStage : public Module {
 public:
  PvtStage(const PvtOptions& o, size_t stage, const std::vector<double>& rates)
      : dim_(o.dims[stage]), has_class_row_(stage + 1 == o.depths.size()) {
    const int64_t patch = stage == 0 ? kPvtPatch : 2,
                  side = std::max<int64_t>(o.image_size / (kPvtPatch << stage), 1);
    grid_ = {side, side};
    patch_embed_ = make_child<PatchEmbed>(fmt::format("patch_embed{}", stage + 1), patch, dim_, true,
                                          stage == 0 ? 3 : o.dims[stage - 1]);
    positions_ = param(fmt::format("pos_embed{}", stage + 1), {1, grid_.cells() + has_class_row_, dim_},
                       init::truncated_normal(0.02), true, &resize_positions_linearly);
    Args reduction;
    reduction.set("reduction", o.reductions[stage]);
    for (size_t b = 0; b < rates.size(); ++b)
      blocks_.push_back(
          make_child<VisionBlock>(fmt::format("block{}.{}", stage + 1, b),
                                  VisionBlockOptions{.shape = {.dim = dim_, .heads = o.heads[stage]},
                                                     .mlp_ratio = static_cast<double>(o.mlp_ratios[stage]),
                                                     .drop_path = rates[b],
                                                     .norm_eps = kPvtNormEps,
                                                     .attention = o.attention,
                                                     .fallback = "spatial_reduction",
                                                     .defaults = reduction}));
  }

  // An image or a map -> the map of this stage.
  Var forward(const Var& x) const {
    MapSize map;
    Var tokens = embed(x, map);
    for (const auto& block : blocks_) tokens = block(tokens, FeatureLevels{map});
    return reshape(tokens, {x.dim(0), map.height, map.width, dim_});
  }
  // For the last stage: with a class token [1, 1, C] in front -> that token [N, 1, C]
  Var forward(const Var& x, const Var& class_token) const {
    MapSize map;
    Var tokens = embed(x, map);
    const Var first = add(class_token, slice(positions_, 1, 0, 1));
    tokens = concat({expand(cast(first, tokens.dtype()), {x.dim(0), 1, dim_}), tokens}, 1);
    for (const auto& block : blocks_) tokens = block(tokens, FeatureLevels{});
    return slice(tokens, 1, 0, 1);
  }

 private:
  // Returns the patches with their positions, [N, H W, C].
  Var embed(const Var& x, MapSize& map) const {
    Var patches = patch_embed_(x);
    map = {patches.dim(1), patches.dim(2)};
    const Var learned = has_class_row_ ? slice(positions_, 1, 1, grid_.cells() + 1) : positions_;
    return add(reshape(patches, {x.dim(0), map.cells(), dim_}),
               resized_positions(learned, grid_, map, Resampling::kLinear, constants_));
  }

  int64_t dim_;
  bool has_class_row_;
  MapSize grid_;
  Var positions_;
  ConstantKeeper constants_;
  Child<PatchEmbed> patch_embed_;
  std::vector<Child<VisionBlock>> blocks_;
};

PvtOptions read_pvt(const Args& args) {
  PvtOptions o;
  o.depths = args.get_ints("depths", {3, 4, 6, 3}, 1, kMaxBlocks);
  if (o.depths.empty() || o.depths.size() > kMaxStages)
    fail_input("{}.depths: {} stages, expected 1 to {}", args.path(), o.depths.size(), kMaxStages);
  auto list = [&](const char* key, const std::vector<int64_t>& fallback, int64_t high = 65536) {
    return read_per_stage(args, key, fallback, std::ssize(o.depths), high);
  };
  o.dims = list("dims", {64, 128, 320, 512});
  o.heads = list("heads", {1, 2, 5, 8});
  o.mlp_ratios = list("mlp_ratios", {8, 8, 4, 4}, 1000);
  o.reductions = list("reductions", {8, 4, 2, 1}, kMaxReduction);
  for (size_t s = 0; s < o.dims.size(); ++s)
    if (o.dims[s] % o.heads[s] != 0)
      fail_input("{}.heads: {} heads in stage {}, expected a divisor of its {} channels", args.path(),
                 o.heads[s], s + 1, o.dims[s]);
  o.image_size = args.get_int("image_size", o.image_size, 1, 1 << 16);
  o.drop_path = args.get_float("drop_path", o.drop_path, 0, 1);
  o.attention = args.get_section("attention");
  return o;
}

std::vector<Child<PvtStage>> make_stages(const PvtOptions& o) {
  std::vector<Child<PvtStage>> stages;
  const auto rates = drop_path_rates(o.depths, o.drop_path);
  for (size_t s = 0; s < o.depths.size(); ++s) stages.push_back(std::make_shared<PvtStage>(o, s, rates[s]));
  return stages;
}

class Pvt : public Backbone {
 public:
  Pvt(const PvtOptions& o, const std::vector<int64_t>& outputs)
      : outputs_(outputs), stage_channels_(o.dims), stages_(make_stages(o)) {
    for (const auto& stage : stages_) child("", stage);
  }
  std::vector<Var> forward(const Var& images) override {
    std::vector<Var> maps;
    for (size_t s = 0; s < static_cast<size_t>(outputs_.back()); ++s)
      maps.push_back(stages_[s](s == 0 ? images : maps.back()));
    return at_stages(maps, outputs_);
  }
  std::vector<int64_t> channels() const override { return at_stages(stage_channels_, outputs_); }
  std::string type_name() const override { return "PVT"; }

 private:
  std::vector<int64_t> outputs_, stage_channels_;
  std::vector<Child<PvtStage>> stages_;
};

class PvtClassifier : public Classifier {
 public:
  PvtClassifier(const PvtOptions& o, int64_t num_classes) : dim_(o.dims.back()), stages_(make_stages(o)) {
    for (const auto& stage : stages_) child("", stage);
    norm_ = make_child<LayerNorm>("norm", dim_, kPvtNormEps);
    class_token_ = param("cls_token", {1, 1, dim_}, init::truncated_normal(0.02));
    head_ = make_child<Linear>("head", dim_, num_classes, vision_linear());
  }
  Var forward(const Var& images) override {
    Var x = images;
    for (size_t s = 0; s + 1 < stages_.size(); ++s) x = stages_[s](x);
    x = stages_.back()(x, class_token_);
    return head_(reshape(norm_(x), {images.dim(0), dim_}));
  }
  int64_t num_classes() const override { return head_->weight().dim(0); }
  std::vector<std::string> class_heads() const override { return {"head."}; }

 private:
  int64_t dim_;
  std::vector<Child<PvtStage>> stages_;
  Var class_token_;
  Child<LayerNorm> norm_;
  Child<Linear> head_;
};

std::shared_ptr<Backbone> build_pvt(const Args& args, const std::vector<int64_t>& default_outputs) {
  const PvtOptions options = read_pvt(args);
  const auto outputs = read_outputs(args, default_outputs, std::ssize(options.depths));
  args.finish();
  return std::make_shared<Pvt>(options, outputs);
}

std::shared_ptr<Classifier> build_pvt_classifier(const Args& args, int64_t num_classes) {
  const PvtOptions options = read_pvt(args);
  if (options.reductions.back() != 1 && !options.attention.has("type"))
    fail_input(
        "{}.reductions: {} in the last stage, expected 1: a classifier's class token is not a map cell",
        args.path(), options.reductions.back());
  args.finish();
  return std::make_shared<PvtClassifier>(options, num_classes);
}

// Returns the side in pixels of the images that its positions are made for, or nothing if it is no PVT.
std::optional<int64_t> infer_pvt_shape(Inference& in, const std::string& prefix) {
  const std::string b = "model.backbone.arg.", positions = prefix + "pos_embed1";
  if (!in.has(prefix + "patch_embed1.proj.weight") || !in.has(positions)) return std::nullopt;
  std::vector<int64_t> depths, dims, heads, mlp_ratios, reductions;
  for (int64_t s = 1; s <= static_cast<int64_t>(kMaxStages); ++s) {
    const std::string block = fmt::format("{}block{}.", prefix, s), hidden = block + "0.mlp.fc1.weight";
    const int64_t depth = in.count(block, ".norm1.weight");
    if (depth == 0 || !in.has(hidden)) break;
    depths.push_back(depth);
    dims.push_back(in.size(hidden, 1));
    heads.push_back(std::max<int64_t>(1, dims.back() / kPvtHeadChannels));
    mlp_ratios.push_back(in.size(hidden, 0) / std::max<int64_t>(1, dims.back()));
    const std::string reduction = block + "0.attn.sr.weight";
    reductions.push_back(in.has(reduction) ? in.size(reduction, 2) : 1);
  }
  if (depths.empty()) return std::nullopt;
  const int64_t side = kPvtPatch * std::llround(std::sqrt(static_cast<double>(in.size(positions, 1))));
  in.set(b + "depths", depths);
  in.set(b + "dims", dims);
  in.set(b + "heads", heads);
  in.set(b + "mlp_ratios", mlp_ratios);
  in.set(b + "reductions", reductions);
  in.set(b + "image_size", side);
  in.expect_in_json<std::string>("hidden_act", "gelu");
  in.expect_in_json<double>("layer_norm_eps", kPvtNormEps);
  in.assumed.push_back(fmt::format("{}heads: {}", b, fmt::join(heads, ", ")));
  return side;
}

bool infer_pvt(Inference& in, const std::string& prefix) { return infer_pvt_shape(in, prefix).has_value(); }

bool infer_pvt_classifier(Inference& in) {
  if (!in.has("head.weight") || !in.has("cls_token")) return false;
  const auto side = infer_pvt_shape(in, "");
  if (!side) return false;
  infer_classes(in, "head.", {.side = *side});
  return true;
}

SACCADE_REGISTER_BACKBONE(pvt, build_pvt, build_pvt_classifier, infer_pvt, false, infer_pvt_classifier);

// Hugging Face's names for PVT; the official ones are ours.
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
