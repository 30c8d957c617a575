// The names that torchvision gives to the tensors, and what the weights of a RetinaNet tell of its
// configuration. mmdetection's names are ours.
#include "models/retinanet/retinanet.h"
#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

constexpr int64_t kAnchors = 9;
constexpr int64_t kTorchvisionDetections = 300;
const std::string kTorchvisionRetinaNet = "torchvision RetinaNet";

// Of its versions from 0.13 on, and before.
const WeightRules kTorchvisionNames{
    {"backbone.body.", "backbone."},
    {"backbone.fpn.inner_blocks.*.0.", "neck.lateral_convs.*.conv."},
    {"backbone.fpn.inner_blocks.*.", "neck.lateral_convs.*.conv."},
    {"backbone.fpn.layer_blocks.*.0.", "neck.fpn_convs.*.conv."},
    {"backbone.fpn.layer_blocks.*.", "neck.fpn_convs.*.conv."},
    {"backbone.fpn.extra_blocks.p6.", "neck.fpn_convs.3.conv."},
    {"backbone.fpn.extra_blocks.p7.", "neck.fpn_convs.4.conv."},
    {"head.classification_head.conv.*.0.", "bbox_head.cls_convs.*.conv."},
    {"head.classification_head.conv.0.", "bbox_head.cls_convs.0.conv."},
    {"head.classification_head.conv.2.", "bbox_head.cls_convs.1.conv."},
    {"head.classification_head.conv.4.", "bbox_head.cls_convs.2.conv."},
    {"head.classification_head.conv.6.", "bbox_head.cls_convs.3.conv."},
    {"head.classification_head.cls_logits.", "bbox_head.retina_cls."},
    {"head.regression_head.conv.*.0.", "bbox_head.reg_convs.*.conv."},
    {"head.regression_head.conv.0.", "bbox_head.reg_convs.0.conv."},
    {"head.regression_head.conv.2.", "bbox_head.reg_convs.1.conv."},
    {"head.regression_head.conv.4.", "bbox_head.reg_convs.2.conv."},
    {"head.regression_head.conv.6.", "bbox_head.reg_convs.3.conv."},
    {"head.regression_head.bbox_reg.", "bbox_head.retina_reg."},
};

[[maybe_unused]] const bool torchvision_retinanet =
    weight_namings().add({.name = kTorchvisionRetinaNet,
                          .markers = {"head.classification_head.cls_logits.weight"},
                          .rules = kTorchvisionNames,
                          .scope = WeightNaming::kDetector});

}  // namespace

bool infer_retinanet(Inference& in) {
  const std::string logits = "bbox_head.retina_cls.weight", deltas = "bbox_head.retina_reg.weight";
  if (!in.has(logits) || !in.has("neck.lateral_convs.0.conv.weight")) return false;
  infer_backbone(in, "backbone.");
  if (in.size(deltas, 0) != 4 * kAnchors || in.size(logits, 0) % kAnchors != 0)
    fail_input("{}: {} and {} outputs of its heads, expected those of {} anchors a cell", in.path(),
               in.size(logits, 0), in.size(deltas, 0), kAnchors);
  const std::string own = "model.retinanet.", last = "neck.lateral_convs.2.conv.weight",
                    coarse = "neck.fpn_convs.3.conv.weight";
  const bool is_torchvision = in.naming() == kTorchvisionRetinaNet;
  const int64_t channels = in.size(last, 0), of_backbone = in.size(last, 1);
  in.set("model.num_classes", in.size(logits, 0) / kAnchors);
  in.set(own + "channels", channels);
  in.set(own + "tower_layers", in.count("bbox_head.cls_convs.", ".conv.weight"));
  // Where both have as many channels, the sizes do not tell.
  const Args& given = in.given().get_section("retinanet");
  if (!given.has("coarse_levels")) {
    const bool from_pyramid = channels == of_backbone ? is_torchvision : in.size(coarse, 1) == channels;
    in.set(own + "coarse_levels", from_pyramid ? "pyramid" : "backbone");
  }
  if (is_torchvision) {
    in.set(own + "conventions", "torchvision");
    in.set("eval.max_detections", kTorchvisionDetections);
  }
  in.set("data.pad_multiple", 32);
  return true;
}

}  // namespace saccade
