// DINOv2 (Oquab et al. 2023) with its own parameter names, and the variant of LW-DETR and RF-DETR: most
// blocks attend within windows, each of which has its own class token. Images may have any size: they are
// padded with zeros to whole patches and windows.
// As a backbone its stages are its blocks: it returns a map for each that `outputs` names, at 1 / patch of
// the image, after the last norm. With `pyramid` they are those of other backbones: maps of strides 4, 8, 16
// and 32, interpolated bilinearly between the cells of the last block's map.
// Its class head is linear, on the class token and the mean of the other tokens.
// Registers (Darcet et al. 2023) are further tokens without positions after the class token, which nothing
// reads.
// `style: cae` is LW-DETR's ViT (Chen et al. 2024): no class token, no last norm, keys without bias.
#include "models/dinov2/dinov2.h"

#include <algorithm>
#include <cmath>

#include "layers/position_tables.h"
#include "models/backbone.h"
#include "models/common/patch_embed.h"
#include "models/common/stages.h"
#include "models/common/vision_block.h"
#include "models/weights/inference.h"

namespace saccade {

Var cut_windows(const Var& map, int64_t side) {
  const int64_t N = map.dim(0), H = map.dim(1), W = map.dim(2), C = map.dim(3), h = H / side, w = W / side;
  if (side == 1) return reshape(map, {N, H * W, C});
  const int axes[] = {0, 1, 3, 2, 4, 5};
  return reshape(permute(reshape(map, {N, side, h, side, w, C}), axes), {N * side * side, h * w, C});
}

Var join_windows(const Var& windows, const MapSize& map, int64_t side) {
  const int64_t N = windows.dim(0) / (side * side), C = windows.dim(2);
  const Shape full{N, map.height, map.width, C};
  if (side == 1) return reshape(windows, full);
  const int axes[] = {0, 1, 3, 2, 4, 5};
  return reshape(permute(reshape(windows, {N, side, side, map.height / side, map.width / side, C}), axes),
                 full);
}

// Rules for Hugging Face's names; those of the official files are ours.
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

constexpr double kDinoNormEps = 1e-6;

struct DinoV2Options {
  int64_t image_size = 518;  // the positions belong to (image_size / patch)^2 patches
  int64_t patch = 14, dim = 384, depth = 12, heads = 6;
  double mlp_ratio = 4, drop_path = 0;
  int64_t windows = 1;                   // per side of the map
  std::vector<int64_t> windowed_blocks;  // from 0; the others attend across all windows
  std::vector<int64_t> outputs;          // numbers of blocks after which a map is returned
  std::vector<int64_t> pyramid;  // from 1: the wanted stages of strides 4, 8, 16 and 32; empty for none
  Resampling positions = Resampling::kCubic;
  bool is_cae = false;
  int64_t registers = 0;
  double layer_scale = 1;
};

class DinoV2 : public Backbone {
 public:
  explicit DinoV2(const DinoV2Options& o) : options_(o), grid_(o.image_size / o.patch) {
    const auto small = init::truncated_normal(0.02);
    if (!o.is_cae) {
      cls_token_ = param("cls_token", {1, 1, o.dim}, small);
      // For training with masked patches; never used here.
      param("mask_token", {1, o.dim}, init::constant(0), false);
      if (o.registers > 0)
        register_tokens_ = param("register_tokens", {1, o.registers, o.dim}, init::normal(0, 1e-6));
    }
    pos_embed_ = param("pos_embed", {1, grid_ * grid_ + 1, o.dim}, small, true, &resize_positions);
    patch_embed_ = make_child<PatchEmbed>("patch_embed", o.patch, o.dim, false);
    const auto rates = drop_path_rates({o.depth}, o.drop_path)[0];
    VisionBlockOptions block{.shape = {.dim = o.dim, .heads = o.heads},
                             .mlp_ratio = o.mlp_ratio,
                             .norm_eps = kDinoNormEps,
                             .layer_scale = o.layer_scale,
                             .fallback = "self_attention"};
    if (o.is_cae) {
      block.scale_names = {"gamma_1", "gamma_2"};
      block.defaults.set("key_bias", false);
    }
    for (int64_t b = 0; b < o.depth; ++b) {
      block.drop_path = rates[static_cast<size_t>(b)];
      blocks_.push_back(make_child<VisionBlock>(fmt::format("blocks.{}", b), block));
    }
    if (!o.is_cae) norm_ = make_child<LayerNorm>("norm", o.dim, kDinoNormEps);
  }

  std::vector<Var> forward(const Var& images) override {
    std::vector<Var> maps;
    run(images, [&](const Var& tokens, const MapSize& map) {
      maps.push_back(join_windows(slice(tokens, 1, extra(), tokens.dim(1)), map, options_.windows));
    });
    return options_.pyramid.empty() ? maps : pyramid_of(maps.back(), images);
  }
  // Returns the class token and the mean of the patches after the last requested block, [N, 2 C].
  Var describe(const Var& images) {
    Var description;
    run(images, [&](const Var& tokens, const MapSize&) {
      const int64_t C = tokens.dim(2), windows = options_.windows * options_.windows,
                    N = tokens.dim(0) / windows;
      const int of_window[] = {1}, of_image[] = {1};
      const Var mean_of_windows = mean(slice(tokens, 1, extra(), tokens.dim(1)), of_window);
      auto image = [&](const Var& x) { return mean(reshape(x, {N, windows, C}), of_image); };
      description =
          concat({image(reshape(slice(tokens, 1, 0, 1), {N * windows, C})), image(mean_of_windows)}, 1);
    });
    return description;
  }
  std::vector<int64_t> channels() const override {
    return std::vector<int64_t>(std::max(options_.outputs.size(), options_.pyramid.size()), options_.dim);
  }
  int64_t multiple() const override { return options_.patch * options_.windows; }

 private:
  int64_t extra() const { return options_.is_cae ? 0 : 1 + options_.registers; }

  std::vector<Var> pyramid_of(const Var& map, const Var& images) const {
    std::vector<Var> maps;
    for (int64_t stage : options_.pyramid) {
      const int64_t stride = 2 << stage;
      // Cells beyond the image are cut off.
      auto cells = [&](int64_t pixels) { return (pixels + stride - 1) / stride; };
      const Var whole =
          resize_bilinear(map, cells(map.dim(1) * options_.patch), cells(map.dim(2) * options_.patch));
      maps.push_back(slice(slice(whole, 1, 0, cells(images.dim(1))), 2, 0, cells(images.dim(2))));
    }
    return maps;
  }

  // Calls tap(tokens of all windows [N * windows^2, extra + S, C], map's size) after each requested block.
  template <class Tap>
  void run(const Var& images, const Tap& tap) const {
    ModuleScope scope(*this);
    const DinoV2Options& o = options_;
    const Var patches = patch_embed_(pad_map(images, o.patch * o.windows));
    const MapSize map{patches.dim(1), patches.dim(2)};
    const int64_t windows = o.windows * o.windows;
    Var x = cut_windows(add(patches, cast(positions(map), patches.dtype())), o.windows);
    if (!o.is_cae) {
      Var first = cast(add(cls_token_, slice(pos_embed_, 1, 0, 1)), x.dtype());
      if (o.registers > 0) first = concat({first, cast(register_tokens_, x.dtype())}, 1);
      const int64_t N = patches.dim(0), S = x.dim(1);
      x = concat({expand(reshape(first, {1, 1, extra(), o.dim}), {N, windows, extra(), o.dim}),
                  reshape(x, {N, windows, S, o.dim})},
                 2);
      x = reshape(x, {N * windows, extra() + S, o.dim});
    }
    const Shape apart{x.dim(0), x.dim(1), o.dim}, together{x.dim(0) / windows, x.dim(1) * windows, o.dim};
    for (int64_t b = 0; b < o.outputs.back(); ++b) {
      const bool is_windowed = std::ranges::count(o.windowed_blocks, b) > 0 || windows == 1;
      const auto& block = blocks_[static_cast<size_t>(b)];
      x = is_windowed ? block(x, FeatureLevels{})
                      : reshape(block(reshape(x, together), FeatureLevels{}), apart);
      if (std::ranges::count(o.outputs, b + 1) > 0) tap(norm_ ? norm_(x) : x, map);
    }
  }

  // [1, H, W, C]
  Var positions(const MapSize& map) const {
    const MapSize square{grid_, grid_};
    const Var grid = resized_positions(slice(pos_embed_, 1, 1, 1 + square.cells()), square, map,
                                       options_.positions, constants_);
    return reshape(grid, {1, map.height, map.width, options_.dim});
  }

  DinoV2Options options_;
  int64_t grid_;
  Var cls_token_, register_tokens_, pos_embed_;
  ConstantKeeper constants_;
  Child<PatchEmbed> patch_embed_;
  std::vector<Child<VisionBlock>> blocks_;
  Child<LayerNorm> norm_;
};

class DinoV2Classifier : public Classifier {
 public:
  DinoV2Classifier(const DinoV2Options& options, int64_t classes) {
    body_ = make_child<DinoV2>("", options);
    head_ = make_child<Linear>("head", 2 * options.dim, classes, vision_linear());
  }
  Var forward(const Var& images) override { return head_(body_->describe(images)); }
  int64_t num_classes() const override { return head_->weight().dim(0); }
  std::vector<std::string> class_heads() const override { return {"head."}; }

 private:
  Child<DinoV2> body_;
  Child<Linear> head_;
};

DinoV2Options read_dinov2(const Args& args, const std::vector<int64_t>& default_stages) {
  DinoV2Options o;
  o.image_size = args.get_int("image_size", o.image_size, 1, 65536);
  o.patch = args.get_int("patch", o.patch, 1, o.image_size);
  o.dim = args.get_int("dim", o.dim, 1, 65536);
  o.depth = args.get_int("depth", o.depth, 1, kMaxBlocks);
  o.heads = args.get_int("heads", o.heads, 1, 65536);
  o.mlp_ratio = args.get_float("mlp_ratio", o.mlp_ratio, 0.01, 1000);
  o.drop_path = args.get_float("drop_path", o.drop_path, 0, 1);
  o.windows = args.get_int("windows", o.windows, 1, 64);
  o.windowed_blocks = args.get_ints("windowed_blocks", {}, 0, o.depth - 1);
  const std::string positions = args.get_choice("positions", "cubic", {"cubic", "smooth"});
  o.positions = positions == "smooth" ? Resampling::kSmoothCubic : Resampling::kCubic;
  o.is_cae = args.get_choice("style", "dinov2", {"dinov2", "cae"}) == "cae";
  o.layer_scale = args.get_float("layer_scale", o.is_cae ? 0.1 : 1, 1e-9, 1e9);
  o.registers = args.get_int("registers", 0, 0, 1024);
  if (o.is_cae && o.registers > 0)
    fail_input("{}.registers: {}, but style cae has none, expected 0", args.path(), o.registers);
  // If its stages are its blocks, the detectors' usual stages do not apply to it.
  constexpr int64_t kStages = 4;
  if (args.get_bool("pyramid", false))
    o.pyramid = read_outputs(args, default_stages, kStages);
  else
    o.outputs = read_outputs(args, {}, o.depth);
  if (o.outputs.empty()) o.outputs = {o.depth};
  if (o.dim % o.heads != 0)
    fail_input("{}.heads: {} heads, expected a divisor of the {} channels", args.path(), o.heads, o.dim);
  args.finish("DINOv2");
  return o;
}

std::shared_ptr<Backbone> build_dinov2(const Args& args, const std::vector<int64_t>& default_outputs) {
  return std::make_shared<DinoV2>(read_dinov2(args, default_outputs));
}

std::shared_ptr<Classifier> build_dinov2_classifier(const Args& args, int64_t classes) {
  const DinoV2Options o = read_dinov2(args, {});
  if (o.is_cae) fail_input("{}.arg.style: cae has no class token, which the class head reads", args.path());
  return std::make_shared<DinoV2Classifier>(o, classes);
}

// Sets all but windows and outputs, which do not follow from the weights.
bool infer_dinov2(Inference& in, const std::string& prefix) {
  const std::string b = "model.backbone.arg.", patches = prefix + "patch_embed.proj.weight",
                    block = prefix + "blocks.0.";
  const bool is_cae = in.has(block + "gamma_1");
  if (!in.has(patches) || !in.has(prefix + "pos_embed") || (!is_cae && !in.has(block + "ls1.gamma")))
    return false;
  const int64_t dim = in.size(patches, 0), patch = in.size(patches, 2);
  const auto grid = static_cast<double>(in.size(prefix + "pos_embed", 1) - 1);
  in.set(b + "style", is_cae ? "cae" : "dinov2");
  if (const std::string registers = prefix + "register_tokens"; in.has(registers)) {
    in.set(b + "registers", in.size(registers, 1));
    in.set(b + "positions", "smooth");  // in all published models with registers
  }
  in.set(b + "patch", patch);
  in.set(b + "dim", dim);
  in.set(b + "depth", in.count(prefix + "blocks.", ".norm1.weight"));
  in.set(b + "mlp_ratio",
         static_cast<double>(in.size(block + "mlp.fc1.weight", 0)) / static_cast<double>(dim));
  in.set(b + "image_size", patch * std::llround(std::sqrt(grid)));
  // DINOv2 always has 64 channels per head, LW-DETR always 12 heads.
  const int64_t usual = is_cae ? 12 : std::max<int64_t>(1, dim / 64);
  const auto said = in.json().find<int64_t>("backbone_config.num_attention_heads");
  expect_vision_json(in, said ? "backbone_config." : "");
  const auto own = in.json().find<int64_t>("num_attention_heads");
  const int64_t heads = said ? *said : own ? *own : usual;
  if (!said && !own) in.assumed.push_back(fmt::format("{}heads: {}", b, heads));
  in.set(b + "heads", heads);
  return true;
}

bool infer_dinov2_classifier(Inference& in) {
  const char* patches = "patch_embed.proj.weight";
  if (!in.has("head.weight") || !in.has(patches) || in.size("head.weight", 1) != 2 * in.size(patches, 0) ||
      !infer_dinov2(in, ""))
    return false;
  infer_classes(in, "head.", {});
  return true;
}

SACCADE_REGISTER_BACKBONE(dinov2, build_dinov2, build_dinov2_classifier, infer_dinov2, false,
                          infer_dinov2_classifier);

WeightRules with_head(WeightRules rules) {
  rules.push_back({"classifier.", "head."});
  return rules;
}

[[maybe_unused]] const bool hugging_face_dinov2 =
    weight_namings().add({.name = "Hugging Face DINOv2",
                          .markers = {"encoder.layer.0.layer_scale1.lambda1"},
                          .prefix = "dinov2.",
                          .rules = with_head(dinov2_rules("", ""))});

[[maybe_unused]] const bool hugging_face_registers =
    weight_namings().add({.name = "Hugging Face DINOv2 with registers",
                          .markers = {"dinov2_with_registers.encoder.layer.0.layer_scale1.lambda1"},
                          .prefix = "dinov2_with_registers.",
                          .rules = with_head(dinov2_rules("", ""))});

}  // namespace
}  // namespace saccade
