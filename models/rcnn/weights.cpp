// The names that torchvision gives to the tensors, and what the weights of an R-CNN tell of its configuration. mmdetection's names are ours.
#include "models/rcnn/rcnn.h"
#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

const std::string kTorchvisionRcnn = "torchvision R-CNN";

// Of its versions from 0.13 on, and before.
const WeightRules kTorchvisionRcnnNames{
    {"backbone.body.", "backbone."},
    {"backbone.fpn.inner_blocks.*.0.", "neck.lateral_convs.*.conv."},
    {"backbone.fpn.inner_blocks.*.", "neck.lateral_convs.*.conv."},
    {"backbone.fpn.layer_blocks.*.0.", "neck.fpn_convs.*.conv."},
    {"backbone.fpn.layer_blocks.*.", "neck.fpn_convs.*.conv."},
    {"rpn.head.conv.0.0.", "rpn_head.rpn_conv."},
    {"rpn.head.conv.", "rpn_head.rpn_conv."},
    {"rpn.head.cls_logits.", "rpn_head.rpn_cls."},
    {"rpn.head.bbox_pred.", "rpn_head.rpn_reg."},
    {"roi_heads.box_head.fc6.", "roi_head.bbox_head.shared_fcs.0."},
    {"roi_heads.box_head.fc7.", "roi_head.bbox_head.shared_fcs.1."},
    {"roi_heads.box_predictor.cls_score.", "roi_head.bbox_head.fc_cls."},
    {"roi_heads.box_predictor.bbox_pred.", "roi_head.bbox_head.fc_reg."},
    {"roi_heads.mask_head.mask_fcn1.", "roi_head.mask_head.convs.0.conv."},
    {"roi_heads.mask_head.mask_fcn2.", "roi_head.mask_head.convs.1.conv."},
    {"roi_heads.mask_head.mask_fcn3.", "roi_head.mask_head.convs.2.conv."},
    {"roi_heads.mask_head.mask_fcn4.", "roi_head.mask_head.convs.3.conv."},
    {"roi_heads.mask_head.*.0.", "roi_head.mask_head.convs.*.conv."},
    {"roi_heads.mask_predictor.conv5_mask.", "roi_head.mask_head.upsample."},
    {"roi_heads.mask_predictor.mask_fcn_logits.", "roi_head.mask_head.conv_logits."},
};

[[maybe_unused]] const bool torchvision_rcnn =
    weight_namings().add({.name = kTorchvisionRcnn,
                          .file = __FILE__,
                          .markers = {"roi_heads.box_predictor.cls_score.weight"},
                          .rules = kTorchvisionRcnnNames,
                          .place = WeightNaming::kDetector});

bool infer_rcnn(Inference& in, bool masks) {
  const std::string head = "roi_head.bbox_head.", mask_head = "roi_head.mask_head.",
                    logits = head + "fc_cls.weight", deltas = head + "fc_reg.weight";
  if (!in.has(logits) || !in.has("rpn_head.rpn_cls.weight") ||
      in.has(mask_head + "conv_logits.weight") != masks)
    return false;
  infer_backbone(in, "backbone.");
  const std::string own = "model.rcnn.";
  const bool is_torchvision = in.naming() == kTorchvisionRcnn;
  const int64_t rows = in.size(logits, 0), classes = is_torchvision ? rows : rows - 1;
  if (in.size(deltas, 0) != 4 * classes)
    fail_input("{}: {} and {} outputs of its heads, expected boxes of each of {} classes", in.path(), rows,
               in.size(deltas, 0), classes);
  in.set("model.num_classes", classes);
  in.set(own + "channels", in.size("neck.lateral_convs.0.conv.weight", 0));
  in.set(own + "head_dim", in.size(logits, 1));
  if (masks) {
    in.set(own + "mask_layers", in.count(mask_head + "convs.", ".conv.weight"));
    in.set(own + "mask_channels", in.size(mask_head + "upsample.weight", 1));
  }
  if (is_torchvision) in.set(own + "conventions", "torchvision");
  in.set("data.pad_multiple", 32);
  return true;
}

}  // namespace

bool infer_faster_rcnn(Inference& in) { return infer_rcnn(in, false); }
bool infer_mask_rcnn(Inference& in) { return infer_rcnn(in, true); }

}  // namespace saccade
