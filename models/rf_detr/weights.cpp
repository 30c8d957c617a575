// The names of the official files, in which DINOv2 has those of Hugging Face,
// and the inference of the configuration from the weights.

#include <algorithm>
#include <cmath>

#include "models/dinov2/dinov2.h"
#include "models/lw_detr/weights.h"

namespace saccade {
namespace {

WeightRules both_rules(WeightRules rules, const WeightRules& more) {
  rules.insert(rules.end(), more.begin(), more.end());
  return rules;
}

[[maybe_unused]] const bool official_rf_detr =
    weight_namings().add({.name = "Hugging Face's and the official RF-DETR",
                          .markers = {"backbone.0.encoder.encoder.encoder.layer.0.layer_scale1.lambda1"},
                          .rules = dinov2_rules("backbone.0.encoder.encoder.", kLwDetrBackbone),
                          .scope = WeightNaming::kDetector});
[[maybe_unused]] const bool hugging_face_rf_detr =
    weight_namings().add({.name = "Hugging Face RF-DETR",
                          .markers = {"model.backbone.backbone.encoder.layer.0.layer_scale1.lambda1"},
                          .rules = both_rules(dinov2_rules("model.backbone.backbone.", kLwDetrBackbone),
                                              hugging_face_lw_detr_names()),
                          .scope = WeightNaming::kDetector});

// Infers the part that is the same with and without masks.
bool infer_rf_detr_parts(Inference& in) {
  const std::string encoder = kLwDetrBackbone, b = "model.backbone.";
  if (!in.has(encoder + "blocks.0.ls1.gamma") || !infer_lw_detr_parts(in)) return false;
  const int64_t patch = in.size(encoder + "patch_embed.proj.weight", 2),
                depth = in.count(encoder + "blocks.", ".norm1.weight"),
                grid = std::llround(std::sqrt(static_cast<double>(in.size(encoder + "pos_embed", 1) - 1)));
  // The models with DINOv2's own patches also keep its table. With patches of 12 pixels,
  // the smallest model has no windows.
  const bool is_first = patch == 14;
  const int64_t usual = is_first ? 4 : grid % 2 == 0 && !(patch == 12 && grid == 26) ? 2 : 1;
  int64_t windows = usual;
  if (const auto json = in.json().find<int64_t>("backbone_config.num_windows"))
    windows = *json;
  else
    windows = in.argument_or<int64_t>("num_windows", usual, b + "arg.windows");
  in.set(b + "arg.windows", windows);
  std::vector<int64_t> taps, windowed;
  if (depth >= 8 && depth % 4 == 0)  // 12 in all published models
    for (int64_t k = 1; k <= 4; ++k) taps.push_back(is_first ? k * depth / 4 - 1 : k * depth / 4);
  else
    taps.push_back(depth);
  taps = infer_blocks(in, "out_indices", taps, b + "outputs");
  for (int64_t i = 0; i < depth; ++i)
    if (std::ranges::count(taps, i) == 0) windowed.push_back(i);
  in.set(b + "outputs", taps);
  in.set(b + "arg.windowed_blocks", windowed);
  in.set(b + "arg.positions", "smooth");
  const auto side = in.argument<int64_t>("resolution");
  infer_square_images(in, side ? *side : is_first ? 560 : patch * grid);
  return true;
}

}  // namespace

bool infer_rf_detr(Inference& in) { return !in.has("segmentation_head.bias") && infer_rf_detr_parts(in); }
bool infer_rf_detr_seg(Inference& in) {
  if (!in.has("segmentation_head.bias") || !infer_rf_detr_parts(in)) return false;
  if (const auto stride = in.json().find<int64_t>("mask_downsample_ratio"))
    in.set("model.lw_detr.mask_stride", *stride);
  return true;
}

}  // namespace saccade
