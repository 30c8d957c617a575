#include "models/weights/weight_names.h"

#include <algorithm>
#include <string_view>

#include "core/tensor/error.h"

namespace saccade {
namespace {

struct ForeignModel {
  // Each is a part of some name in the file; the second may be empty.
  const char *part, *other;
  const char* name;
};

// Official names and Hugging Face's. The first match counts.
constexpr ForeignModel kForeign[] = {
    {"sa_qcontent_proj.", "refpoint_embed", "DAB-DETR or DN-DETR"},
    {"self_attn_query_content_proj.", "", "DAB-DETR"},
    {"sa_qcontent_proj.", "", "Conditional DETR"},
    {"ca_qcontent_proj.", "", "Conditional DETR"},
    {"q_content_proj.", "", "Conditional DETR"},
    {"text_backbone.", "encoder.", "Grounding DINO"},
    {"feat_map.", "bert.", "Grounding DINO"},
    {"embeddings.detection_tokens", "", "YOLOS"},
    {"class_predictor.", "pixel_level_module.", "MaskFormer"},
    {"swish_ffn.", "lqe_layers.", "DEIMv2"},
    {"gate_proj.", "lqe_layers.", "DEIMv2"},
};

// Models whose other tensors have names and shapes of ours, but mean nothing without these.
struct OtherVersion {
  const char *part, *other;
  const char* what;
};

constexpr OtherVersion kOtherVersions[] = {
    {"backbone.bottom_up.", "backbone.fpn_lateral",
     "weights with the names of detectron2, which are not supported; expected those of the same model from "
     "mmdetection or torchvision"},
    {"roi_heads.box_predictor.", "proposal_generator.",
     "weights with the names of detectron2, which are not supported; expected those of the same model from "
     "mmdetection or torchvision"},
    {"roi_heads.box_predictor.", "backbone.fpn.inner_blocks.0.1.",
     "weights of torchvision's second version of R-CNN (..._fpn_v2), whose pyramid has batch norms and whose "
     "box head has convolutions, which are not supported; expected those of fasterrcnn_resnet50_fpn or "
     "maskrcnn_resnet50_fpn"},
    {"roi_heads.box_predictor.", "roi_heads.box_head.0.0.",
     "weights of a torchvision R-CNN whose box head has convolutions, which are not supported; expected "
     "those of fasterrcnn_resnet50_fpn or maskrcnn_resnet50_fpn"},
    {"roi_heads.box_predictor.", "roi_heads.keypoint_predictor.",
     "weights of torchvision's Keypoint R-CNN, a model that saccade does not have; expected those of "
     "fasterrcnn_resnet50_fpn or maskrcnn_resnet50_fpn"},
    {"head.classification_head.cls_logits.", "head.classification_head.conv.0.1.",
     "weights of torchvision's second version of RetinaNet (retinanet_resnet50_fpn_v2), whose towers have "
     "group norms, which are not supported; expected those of retinanet_resnet50_fpn"},
    {"head.classification_head.cls_logits.", "head.regression_head.bbox_ctrness.",
     "weights of torchvision's FCOS, a model that saccade does not have"},
};

// Returns whether some name contains this, starting at one of the name's parts: "bbox_head." is not in
// "decoder.dec_bbox_head.0.bias".
bool some_name_has(const WeightsFile& file, std::string_view part) {
  return std::ranges::any_of(file.entries(), [&](const WeightEntry& e) {
    const size_t at = e.name.find(part);
    return at == 0 || (at != std::string::npos && e.name[at - 1] == '.');
  });
}

}  // namespace

std::string other_version(const WeightsFile& file) {
  for (const OtherVersion& version : kOtherVersions)
    if (some_name_has(file, version.part) && some_name_has(file, version.other)) return version.what;
  return "";
}

std::string foreign_model(const WeightsFile& file) {
  if (std::string other = other_version(file); !other.empty()) return other;
  const auto has = [&](std::string_view part) { return some_name_has(file, part); };
  for (const ForeignModel& model : kForeign)
    if (has(model.part) && has(model.other))
      return fmt::format("weights of {}, a model that saccade does not have", model.name);
  // RetinaNet's and R-CNN's names are ours.
  if (has("bbox_head.") && has("backbone.") && !has("bbox_head.retina_cls.") && !has("rpn_head.rpn_cls."))
    return "weights with the names of mmdetection, which are not supported: use the official ones of the same model";
  // These are names of a torch.nn.Sequential: "model.0.conv.weight", "model.22.dfl.conv.weight".
  if (has("model.0.") && has("model.1.") && has("model.9.") && has("conv.weight"))
    return "weights with the names of Ultralytics, whose models have layers of their own: use the official ones of RT-DETR";
  return "";
}

}  // namespace saccade
