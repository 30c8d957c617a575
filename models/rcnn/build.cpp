// Builds Faster, Mask and Cascade R-CNN from a configuration.
#include <array>

#include "models/build.h"
#include "models/rcnn/rcnn.h"

namespace saccade {
namespace {

constexpr int64_t kRcnnStride = 4, kRcnnMaps = 4;  // of the backbone
constexpr int64_t kTorchvisionSamples = 2;         // per side of a region's cell
constexpr double kRpnSmooth = 1.0 / 9;

struct RcnnKind {
  const char* name;
  bool masks, cascade;
};

std::vector<RcnnStage> stages_of(const RcnnKind& kind, int64_t samples, bool like_torchvision) {
  RcnnStage stage;
  stage.sampling.sampler = {.count = samples, .positives = 0.25};
  stage.sampling.assigner.low_quality = !like_torchvision && !kind.cascade;
  stage.coder.limits_shrinking = !like_torchvision;
  if (!kind.cascade) return {stage};
  std::vector<RcnnStage> stages;
  // Each requires more overlap, moves boxes less and weighs half as much as the one before.
  for (const auto& [overlap, shift, growth, weight] :
       {std::array{0.5, 0.1, 0.2, 1.0}, {0.6, 0.05, 0.1, 0.5}, {0.7, 0.033, 0.067, 0.25}}) {
    MaxIouOptions& assigner = stage.sampling.assigner;
    assigner.positive = assigner.negative = assigner.least_quality = overlap;
    stage.coder.deviations = {shift, shift, growth, growth};
    stage.weight = weight;
    stages.push_back(stage);
  }
  return stages;
}

BoxLoss box_loss_of(const std::string& name) {
  return name == "giou" ? BoxLoss::kGiou : name == "smooth_l1" ? BoxLoss::kSmoothL1 : BoxLoss::kL1;
}

std::shared_ptr<Module> build_rcnn(const Args& model, int64_t classes, const Args& criterion,
                                   const RcnnKind& kind) {
  const bool masks = kind.masks;
  const Args& own = model.get_section("rcnn");
  const bool like_torchvision = own.get_string("conventions") == "torchvision";
  if (const std::string loss = criterion.get_string("class_loss"); loss != "softmax")
    fail_input("{}.class_loss: \"{}\", but R-CNN only supports softmax", criterion.path(), loss);
  AnchorOptions anchors{
      .strides = {}, .scales = {own.get_float("anchor_scale")}, .whole_pixels = like_torchvision};
  for (double scale : own.get_floats("more_anchor_scales", {})) anchors.scales.push_back(scale);
  for (int64_t l = 0; l <= kRcnnMaps; ++l) anchors.strides.push_back(kRcnnStride << l);
  const BoxCoder coder{.limits_shrinking = !like_torchvision};
  RoiAlignOptions regions{.strides = {anchors.strides.begin(), anchors.strides.end() - 1},
                          .sampling_ratio = like_torchvision ? kTorchvisionSamples : 0,
                          .aligned = !like_torchvision};
  const BoxLoss box_loss = box_loss_of(own.get_string("bbox_loss"));
  const int64_t proposals = own.get_int("proposals"), in_training = own.get_int("train_proposals");
  RcnnOptions options{
      .fpn = {.channels = own.get_int("channels"), .extra_levels = 1, .extra = FpnOptions::Extra::kMaxPool},
      .rpn = {.anchors = Anchors(anchors),
              .coder = coder,
              .sampler = {.count = own.get_int("rpn_samples"), .positives = 0.5},
              .train_candidates = own.get_int("train_candidates"),
              .candidates = own.get_int("candidates"),
              .train_proposals = in_training > 0 ? in_training : proposals,
              .proposals = proposals,
              .nms = own.get_float("rpn_nms"),
              .smooth = box_loss_of(own.get_string("rpn_bbox_loss")) == BoxLoss::kSmoothL1 ? kRpnSmooth : 0,
              .inside = own.get_bool("rpn_inside")},
      .stages = stages_of(kind, own.get_int("samples"), like_torchvision),
      .box_regions = regions,
      .mask_regions = regions,
      .box_head = {.convs = own.get_int("head_convs"),
                   .layers = own.get_int("head_layers"),
                   .dim = own.get_int("head_dim"),
                   .classes = classes,
                   .class_agnostic = own.get_bool("class_agnostic"),
                   .background_first = like_torchvision},
      .masks = masks,
      .detections = {.score_threshold = own.get_float("score_threshold"),
                     .nms = own.get_float("nms"),
                     .count = own.get_int("detections"),
                     .masks_like_torchvision = like_torchvision},
      .box_loss = box_loss,
      .class_weight = criterion.get_float("class_weight"),
      .rpn_bbox_weight = criterion.get_float("bbox_weight")};
  options.bbox_weight =
      box_loss == BoxLoss::kGiou ? criterion.get_float("giou_weight") : options.rpn_bbox_weight;
  if (own.get_string("top_level") == "conv") options.fpn.extra = FpnOptions::Extra::kConvOnInput;
  options.box_regions.size = 7;
  options.mask_regions.size = 14;
  if (masks) options.mask_head = {own.get_int("mask_channels"), own.get_int("mask_layers")};
  own.finish(kind.name);
  auto backbone = build_backbone(model.get_section("backbone"), {1, 2, 3, 4});
  if (const auto maps = std::ssize(backbone->channels()); maps != kRcnnMaps)
    fail_input("model.backbone.outputs: {} maps, expected the {} of strides 4, 8, 16 and 32", maps,
               kRcnnMaps);
  return std::make_shared<Rcnn>(options, std::move(backbone));
}

constexpr RcnnKind kFasterRcnn{"Faster R-CNN", false, false}, kMaskRcnn{"Mask R-CNN", true, false},
    kCascadeMaskRcnn{"Cascade Mask R-CNN", true, true};

template <const RcnnKind& kKind>
std::shared_ptr<Module> build_kind(const Args& model, int64_t classes, const Args& criterion) {
  return build_rcnn(model, classes, criterion, kKind);
}

constexpr const char* kRcnnPreset = "criterion { class_loss: softmax class_weight: 1 bbox_weight: 1 }";

[[maybe_unused]] const bool faster_rcnn_registered =
    model_types().add({.name = "faster_rcnn",
                       .summary = "Faster R-CNN (Ren et al. 2015) on a feature pyramid",
                       .task = "detection",
                       .build = build_kind<kFasterRcnn>,
                       .parts = {"rcnn"},
                       .infer = infer_faster_rcnn,
                       .preset = kRcnnPreset});

[[maybe_unused]] const bool mask_rcnn_registered =
    model_types().add({.name = "mask_rcnn",
                       .summary = "Mask R-CNN (He et al. 2017) on a feature pyramid",
                       .task = "detection",
                       .build = build_kind<kMaskRcnn>,
                       .parts = {"rcnn"},
                       .has_masks = true,
                       .infer = infer_mask_rcnn,
                       .preset = kRcnnPreset});

[[maybe_unused]] const bool cascade_mask_rcnn_registered = model_types().add(
    {.name = "cascade_mask_rcnn",
     .summary = "Cascade Mask R-CNN (Cai and Vasconcelos 2018) on a feature pyramid",
     .task = "detection",
     .build = build_kind<kCascadeMaskRcnn>,
     .parts = {"rcnn"},
     .has_masks = true,
     .infer = infer_cascade_mask_rcnn,
     .preset = "criterion { class_loss: softmax class_weight: 1 bbox_weight: 1 giou_weight: 10 }"
               "model { rcnn { train_proposals: 2000 class_agnostic: true bbox_loss: \"smooth_l1\" "
               "rpn_bbox_loss: \"smooth_l1\" rpn_inside: true } }"});

}  // namespace
}  // namespace saccade
