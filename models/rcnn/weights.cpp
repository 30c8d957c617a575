// torchvision's names of the tensors, and the inference of an R-CNN's configuration from its weights.
// mmdetection's names are ours.
#include "models/rcnn/rcnn.h"
#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

const std::string kTorchvisionRcnn = "torchvision R-CNN";

// For its versions from 0.13 on and older ones.
const WeightRules kTorchvisionRcnnNames = weight_rules(
    {
        {"rpn.head.conv.(0.0.|)", "rpn_head.rpn_conv."},
        {"rpn.head.cls_logits.", "rpn_head.rpn_cls."},
        {"rpn.head.bbox_pred.", "rpn_head.rpn_reg."},
        {"roi_heads.box_head.fc6.", "roi_head.bbox_head.shared_fcs.0."},
        {"roi_heads.box_head.fc7.", "roi_head.bbox_head.shared_fcs.1."},
        {"roi_heads.box_predictor.cls_score.", "roi_head.bbox_head.fc_cls."},
        {"roi_heads.box_predictor.bbox_pred.", "roi_head.bbox_head.fc_reg."},
        {"roi_heads.mask_head.mask_fcn*.", "roi_head.mask_head.convs.-.conv."},
        {"roi_heads.mask_head.*.0.", "roi_head.mask_head.convs.*.conv."},
        {"roi_heads.mask_predictor.conv5_mask.", "roi_head.mask_head.upsample."},
        {"roi_heads.mask_predictor.mask_fcn_logits.", "roi_head.mask_head.conv_logits."},
    },
    torchvision_pyramid_rules());

[[maybe_unused]] const bool torchvision_rcnn =
    weight_namings().add({.name = kTorchvisionRcnn,
                          .markers = {"roi_heads.box_predictor.cls_score.weight"},
                          .rules = kTorchvisionRcnnNames,
                          .scope = WeightNaming::kDetector});

constexpr int64_t kCascadeStages = 3;

// stages: of a cascade, which numbers its heads; 1 for other models
bool infer_rcnn(Inference& in, bool masks, int64_t stages) {
  const std::string first = stages > 1 ? "0." : "", head = "roi_head.bbox_head." + first,
                    mask_head = "roi_head.mask_head." + first, logits = head + "fc_cls.weight",
                    deltas = head + "fc_reg.weight";
  if (!in.has(logits) || !in.has("rpn_head.rpn_cls.weight") ||
      in.has(mask_head + "conv_logits.weight") != masks)
    return false;
  if (const int64_t heads = in.count("roi_head.bbox_head.", ".fc_cls.weight"); stages > 1 && heads != stages)
    fail_input("{}: {} stages in roi_head.bbox_head, expected {}", in.path(), heads, stages);
  infer_backbone(in, "backbone.");
  const std::string own = "model.rcnn.";
  const bool is_torchvision = in.naming() == kTorchvisionRcnn;
  const int64_t rows = in.size(logits, 0), classes = is_torchvision ? rows : rows - 1;
  const bool class_agnostic = in.size(deltas, 0) == 4 && classes > 1;
  if (in.size(deltas, 0) != 4 * classes && !class_agnostic)
    fail_input("{}: its heads have {} and {} outputs, expected one box, or one for each of {} classes",
               in.path(), rows, in.size(deltas, 0), classes);
  in.set("model.num_classes", classes);
  in.set(own + "channels", in.size("neck.lateral_convs.0.conv.weight", 0));
  in.set(own + "head_dim", in.size(logits, 1));
  in.set(own + "head_layers", in.count(head + "shared_fcs.", ".weight"));
  in.set(own + "head_convs", in.count(head + "shared_convs.", ".conv.weight"));
  if (classes > 1) in.set(own + "class_agnostic", class_agnostic);
  if (masks) {
    in.set(own + "mask_layers", in.count(mask_head + "convs.", ".conv.weight"));
    in.set(own + "mask_channels", in.size(mask_head + "upsample.weight", 1));
  }
  if (is_torchvision) in.set(own + "conventions", "torchvision");
  in.set("data.pad_multiple", 32);
  return true;
}

}  // namespace

bool infer_faster_rcnn(Inference& in) { return infer_rcnn(in, false, 1); }
bool infer_mask_rcnn(Inference& in) { return infer_rcnn(in, true, 1); }

bool infer_cascade_mask_rcnn(Inference& in) {
  if (!infer_rcnn(in, true, kCascadeStages)) return false;
  // The weights do not tell which loss they were trained with; those with convolutions in the heads come from
  // the Swin and DAT papers.
  const std::string field = "model.rcnn.bbox_loss";
  if (in.has("roi_head.bbox_head.0.shared_convs.0.conv.weight") &&
      !in.given().get_section("rcnn").has("bbox_loss")) {
    in.set(field, "giou");
    in.assumed.push_back(field + ": giou");
  }
  return true;
}

}  // namespace saccade
