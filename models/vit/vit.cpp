// ViT (Dosovitskiy et al. 2021) and DeiT (Touvron et al. 2021), with timm's parameter names: class token,
// learned positions, pre-norm blocks, a last `norm` and `head` on the class token; `distilled` adds DeiT's
// `dist_token` and `head_dist`, and the logits are the mean of both heads.
// Images may have any size: they are padded with zeros to whole patches; the positions are resized
// bicubically (a = -0.75, cell centres) for other patch grids, as in DeiT's fine-tuning.
// As a backbone it returns one map, the patch tokens after the last norm, at 1 / patch of the image; a
// detector's further levels come from its stride-2 convolutions.
#include <algorithm>
#include <cmath>

#include "layers/position_tables.h"
#include "models/backbone.h"
#include "models/common/patch_embed.h"
#include "models/common/stages.h"
#include "models/common/vision_block.h"
#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

struct ViTOptions {
  int64_t image_size = 224;  // the positions belong to (image_size / patch)^2 patches
  int64_t patch = 16;
  int64_t dim = 768;
  int64_t depth = 12;
  int64_t heads = 12;
  double mlp_ratio = 4;
  double drop_path = 0;  // of the last block
  bool distilled = false;
  Args attention;  // section of the blocks' attention layer; `self_attention` if empty
};

constexpr double kViTNormEps = 1e-6;

// Everything up to the last norm.
class ViTTokens : public Module {
 public:
  explicit ViTTokens(const ViTOptions& o)
      : extra_(o.distilled ? 2 : 1), grid_(o.image_size / o.patch), dim_(o.dim) {
    cls_token_ = param("cls_token", {1, 1, o.dim}, init::truncated_normal(0.02));
    if (o.distilled) dist_token_ = param("dist_token", {1, 1, o.dim}, init::truncated_normal(0.02));
    pos_embed_ = param("pos_embed", {1, grid_ * grid_ + extra_, o.dim}, init::truncated_normal(0.02), true,
                       &resize_positions);
    patch_embed_ = make_child<PatchEmbed>("patch_embed", o.patch, o.dim, false);
    auto rates = drop_path_rates({o.depth}, o.drop_path)[0];
    for (int64_t b = 0; b < o.depth; ++b)
      blocks_.push_back(make_child<VisionBlock>(fmt::format("blocks.{}", b),
                                                VisionBlockOptions{.shape = {.dim = o.dim, .heads = o.heads},
                                                                   .mlp_ratio = o.mlp_ratio,
                                                                   .drop_path = rates[static_cast<size_t>(b)],
                                                                   .norm_eps = kViTNormEps,
                                                                   .attention = o.attention,
                                                                   .fallback = "self_attention"}));
    norm_ = make_child<LayerNorm>("norm", o.dim, kViTNormEps);
  }
  // [N, extra() + H W, C]; the extra tokens come first. Sets `map` to H and W.
  Var forward(const Var& images, MapSize& map) const {
    Var patches = patch_embed_(images);
    int64_t N = patches.dim(0);
    map = {patches.dim(1), patches.dim(2)};
    patches = reshape(patches, {N, map.cells(), dim_});
    DType dtype = patches.value().dtype();
    Vars tokens{expand(cast(cls_token_, dtype), {N, 1, dim_})};
    if (extra_ == 2) tokens.push_back(expand(cast(dist_token_, dtype), {N, 1, dim_}));
    tokens.push_back(patches);
    Var x = add(concat(tokens, 1), positions(map));
    for (const auto& block : blocks_) x = block(x, FeatureLevels{});
    return norm_(x);
  }
  int64_t extra() const { return extra_; }

 private:
  // [1, extra + H W, C]
  Var positions(const MapSize& map) const {
    if (map == MapSize{grid_, grid_}) return pos_embed_;
    const MapSize square{grid_, grid_};
    const Var grid = resized_positions(slice(pos_embed_, 1, extra_, extra_ + square.cells()), square, map,
                                       Resampling::kCubic, constants_);
    return concat({slice(pos_embed_, 1, 0, extra_), grid}, 1);
  }

  int64_t extra_, grid_, dim_;
  Var cls_token_, dist_token_, pos_embed_;
  ConstantKeeper constants_;
  Child<PatchEmbed> patch_embed_;
  std::vector<Child<VisionBlock>> blocks_;
  Child<LayerNorm> norm_;
};

class ViT : public Backbone {
 public:
  explicit ViT(const ViTOptions& options) : dim_(options.dim) {
    tokens_ = make_child<ViTTokens>("", options);
  }
  std::vector<Var> forward(const Var& images) override {
    MapSize map;
    Var x = tokens_(images, map);
    x = slice(x, 1, tokens_->extra(), x.dim(1));
    return {reshape(x, {x.dim(0), map.height, map.width, dim_})};
  }
  std::vector<int64_t> channels() const override { return {dim_}; }

 private:
  int64_t dim_;
  Child<ViTTokens> tokens_;
};

class ViTClassifier : public Classifier {
 public:
  ViTClassifier(const ViTOptions& options, int64_t num_classes)
      : dim_(options.dim), num_classes_(num_classes) {
    tokens_ = make_child<ViTTokens>("", options);
    head_ = make_child<Linear>("head", dim_, num_classes, vision_linear());
    if (options.distilled) head_dist_ = make_child<Linear>("head_dist", dim_, num_classes, vision_linear());
  }
  Var forward(const Var& images) override {
    MapSize map;
    Var x = tokens_(images, map);
    auto token = [&](int64_t i) { return reshape(slice(x, 1, i, i + 1), {x.dim(0), dim_}); };
    Var logits = head_(token(0));
    return head_dist_ ? mul_scalar(add(logits, head_dist_(token(1))), 0.5) : logits;
  }
  int64_t num_classes() const override { return num_classes_; }
  std::vector<std::string> class_heads() const override { return {"head.", "head_dist."}; }

 private:
  int64_t dim_, num_classes_;
  Child<ViTTokens> tokens_;
  Child<Linear> head_, head_dist_;
};

ViTOptions read_vit(const Args& args) {
  ViTOptions o;
  o.image_size = args.get_int("image_size", o.image_size, 1, 65536);
  o.patch = args.get_int("patch", o.patch, 1, o.image_size);
  o.dim = args.get_int("dim", o.dim, 1, 65536);
  o.depth = args.get_int("depth", o.depth, 1, 1024);
  o.heads = args.get_int("heads", o.heads, 1, 65536);
  o.mlp_ratio = args.get_float("mlp_ratio", o.mlp_ratio, 0.01, 1000);
  o.drop_path = args.get_float("drop_path", o.drop_path, 0, 1);
  o.distilled = args.get_bool("distilled", o.distilled);
  o.attention = args.get_section("attention");
  if (o.dim % o.heads != 0)
    fail_input("{}.heads: {} heads, expected a divisor of the {} channels", args.path(), o.heads, o.dim);
  args.finish();
  return o;
}

std::shared_ptr<Backbone> build_vit(const Args& args, const std::vector<int64_t>&) {
  return std::make_shared<ViT>(read_vit(args));
}

std::shared_ptr<Classifier> build_vit_classifier(const Args& args, int64_t num_classes) {
  return std::make_shared<ViTClassifier>(read_vit(args), num_classes);
}

bool infer_vit_classifier(Inference& in) {
  const std::string b = "model.backbone.arg.", heads = b + "heads", patches = "patch_embed.proj.weight";
  if (in.has("blocks.0.ls1.gamma") || !in.has("head.weight") || !in.has("pos_embed") ||
      !in.has("blocks.0.mlp.fc1.weight") || !in.has(patches))
    return false;
  constexpr int64_t kHeadChannels = 64;  // in all official models
  const int64_t dim = in.size(patches, 0), patch = in.size(patches, 2);
  const bool distilled = in.has("head_dist.weight");
  const double cells = std::sqrt(static_cast<double>(in.size("pos_embed", 1) - (distilled ? 2 : 1)));
  const int64_t side = patch * std::llround(cells);
  in.set(b + "patch", patch);
  in.set(b + "dim", dim);
  in.set(b + "depth", in.count("blocks.", ".norm1.weight"));
  in.set(b + "mlp_ratio",
         static_cast<double>(in.size("blocks.0.mlp.fc1.weight", 0)) / static_cast<double>(dim));
  in.set(b + "image_size", side);
  in.set(b + "distilled", distilled);
  const auto heads_in_json = in.json().find<int64_t>("num_attention_heads");
  const int64_t usual = std::max<int64_t>(1, dim / kHeadChannels);
  in.set(heads, heads_in_json.value_or(usual));
  if (!heads_in_json) in.assumed.push_back(fmt::format("{}: {}", heads, usual));
  expect_vision_json(in);
  infer_classes(in, "head.", {.side = side});
  // ViT's own images are in [-1, 1], DeiT's are normalised like all others;
  // timm gives the tensors of both the same names.
  const bool is_half = in.naming() == "Hugging Face ViT";
  if (is_half)
    for (const char* field : {"data.mean", "data.std"}) in.set(field, "0.5, 0.5, 0.5");
  in.assumed.push_back(is_half ? "data.mean: 0.5, 0.5, 0.5" : "data.mean: 0.485, 0.456, 0.406");
  in.assumed.push_back(is_half ? "data.std: 0.5, 0.5, 0.5" : "data.std: 0.229, 0.224, 0.225");
  return true;
}

SACCADE_REGISTER_BACKBONE(vit, build_vit, build_vit_classifier, nullptr, false, infer_vit_classifier);

// The names of Hugging Face's ViT and DeiT, and of torchvision's ViT; timm's are ours.
const WeightRules kVitNames = weight_rules(
    {
        {"embeddings.cls_token", "cls_token"},
        {"embeddings.distillation_token", "dist_token"},
        {"embeddings.position_embeddings", "pos_embed"},
        {"embeddings.patch_embeddings.projection.", "patch_embed.proj."},
        {"layernorm.", "norm."},
        {"(classifier|cls_classifier).", "head."},
        {"distillation_classifier.", "head_dist."},
    },
    vision_block_rules("(encoder.layer|layers).*.", "blocks.*."));

[[maybe_unused]] const bool hugging_face_deit =
    weight_namings().add({.name = "Hugging Face DeiT",
                          .markers = {"deit.embeddings.cls_token"},
                          .prefix = "deit.",
                          .rules = kVitNames});
[[maybe_unused]] const bool hugging_face_vit = weight_namings().add(
    {.name = "Hugging Face ViT", .markers = {"embeddings.cls_token"}, .prefix = "vit.", .rules = kVitNames});

const WeightRules kTorchvisionVitNames = weight_rules({
    {"class_token", "cls_token"},
    {"conv_proj.", "patch_embed.proj."},
    {"encoder.pos_embedding", "pos_embed"},
    {"encoder.layers.encoder_layer_*.ln_1.", "blocks.*.norm1."},
    {"encoder.layers.encoder_layer_*.self_attention.in_proj_", "blocks.*.attn.qkv."},
    {"encoder.layers.encoder_layer_*.self_attention.out_proj.", "blocks.*.attn.proj."},
    {"encoder.layers.encoder_layer_*.ln_2.", "blocks.*.norm2."},
    {"encoder.layers.encoder_layer_*.mlp.(0|linear_1).", "blocks.*.mlp.fc1."},
    {"encoder.layers.encoder_layer_*.mlp.(3|linear_2).", "blocks.*.mlp.fc2."},
    {"encoder.ln.", "norm."},
    {"heads.head.", "head."},
});
[[maybe_unused]] const bool torchvision_vit =
    weight_namings().add({.name = "torchvision ViT",
                          .markers = {"encoder.layers.encoder_layer_0."},
                          .rules = kTorchvisionVitNames});

}  // namespace
}  // namespace saccade
