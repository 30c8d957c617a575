// Faster and Mask R-CNN as a configuration describes them.
#include "models/build.h"
#include "models/rcnn/rcnn.h"

namespace saccade {
namespace {

constexpr int64_t kRcnnStride = 4, kRcnnMaps = 4;  // of the backbone
constexpr int64_t kTorchvisionSamples = 2;         // a side of a cell of a region

std::shared_ptr<Module> build_rcnn(const Args& model, int64_t classes, const Args& criterion, bool masks) {
  const Args& own = model.get_section("rcnn");
  const bool like_torchvision = own.get_string("conventions") == "torchvision";
  if (const std::string loss = criterion.get_string("class_loss"); loss != "softmax")
    fail_input("{}.class_loss: \"{}\", but R-CNN learns with softmax alone", criterion.path(), loss);
  AnchorOptions anchors{
      .strides = {}, .scales = {own.get_float("anchor_scale")}, .whole_pixels = like_torchvision};
  for (int64_t l = 0; l <= kRcnnMaps; ++l) anchors.strides.push_back(kRcnnStride << l);
  const BoxCoder coder{.limits_shrinking = !like_torchvision};
  RoiAlignOptions regions{.strides = {anchors.strides.begin(), anchors.strides.end() - 1},
                          .sampling_ratio = like_torchvision ? kTorchvisionSamples : 0,
                          .aligned = !like_torchvision};
  RcnnOptions options{
      .classes = classes,
      .fpn = {.channels = own.get_int("channels"), .extra_levels = 1, .extra = FpnOptions::Extra::kMaxPool},
      .rpn = {.anchors = Anchors(anchors),
              .coder = coder,
              .sampler = {.count = own.get_int("rpn_samples"), .positives = 0.5},
              .train_candidates = own.get_int("train_candidates"),
              .candidates = own.get_int("candidates"),
              .proposals = own.get_int("proposals"),
              .nms = own.get_float("rpn_nms")},
      .sampling = {.sampler = {.count = own.get_int("samples"), .positives = 0.25}},
      .box_regions = regions,
      .mask_regions = regions,
      .head_dim = own.get_int("head_dim"),
      .background_first = like_torchvision,
      .masks = masks,
      .detections = {.score_threshold = own.get_float("score_threshold"),
                     .nms = own.get_float("nms"),
                     .count = own.get_int("detections"),
                     .masks_like_torchvision = like_torchvision},
      .class_weight = criterion.get_float("class_weight"),
      .bbox_weight = criterion.get_float("bbox_weight")};
  if (own.get_string("top_level") == "conv") options.fpn.extra = FpnOptions::Extra::kConvOnInput;
  options.box_regions.size = 7;
  options.mask_regions.size = 14;
  options.detections.coder.limits_shrinking = !like_torchvision;
  if (like_torchvision) options.sampling.assigner.low_quality = false;
  if (masks) options.mask_head = {own.get_int("mask_channels"), own.get_int("mask_layers")};
  own.finish(masks ? "Mask R-CNN" : "Faster R-CNN");
  auto backbone = build_backbone(model.get_section("backbone"), {1, 2, 3, 4});
  if (const auto maps = std::ssize(backbone->channels()); maps != kRcnnMaps)
    fail_input("model.backbone.outputs: {} maps, expected the {} of strides 4, 8, 16 and 32", maps,
               kRcnnMaps);
  return std::make_shared<Rcnn>(options, std::move(backbone));
}

constexpr const char* kRcnnPreset = "criterion { class_loss: softmax class_weight: 1 bbox_weight: 1 }";

[[maybe_unused]] const bool faster_rcnn_registered = model_types().add(
    {.name = "faster_rcnn",
     .summary = "Faster R-CNN (Ren et al. 2015) on a feature pyramid",
     .task = "detection",
     .file = __FILE__,
     .build = [](const Args& model, int64_t classes,
                 const Args& criterion) { return build_rcnn(model, classes, criterion, false); },
     .parts = {"rcnn"},
     .infer = infer_faster_rcnn,
     .preset = kRcnnPreset});

[[maybe_unused]] const bool mask_rcnn_registered = model_types().add(
    {.name = "mask_rcnn",
     .summary = "Mask R-CNN (He et al. 2017) on a feature pyramid",
     .task = "detection",
     .file = __FILE__,
     .build = [](const Args& model, int64_t classes,
                 const Args& criterion) { return build_rcnn(model, classes, criterion, true); },
     .parts = {"rcnn"},
     .has_masks = true,
     .infer = infer_mask_rcnn,
     .preset = kRcnnPreset});

}  // namespace
}  // namespace saccade
