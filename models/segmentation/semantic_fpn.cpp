// Semantic FPN (Kirillov et al. 2019, "Panoptic Feature Pyramid Networks"), as in mmsegmentation.
#include "models/build.h"
#include "models/segmentation/encoder_decoder.h"
#include "models/weights/inference.h"

namespace saccade {
namespace {

std::shared_ptr<Module> build_semantic_fpn(const Args& model, int64_t classes, const Args& criterion) {
  const Args& own = model.get_section("semantic_fpn");
  const FpnOptions pyramid{.channels = own.get_int("channels")};
  const PixelHeadOptions head{
      .classes = classes, .channels = own.get_int("head_channels"), .dropout = own.get_float("dropout")};
  own.finish("semantic FPN");
  EncoderDecoder::Parts parts;
  parts.backbone = build_backbone(model.get_section("backbone"), kSegmentedStages);
  const std::vector<int64_t> channels = parts.backbone->channels();
  parts.neck = std::make_shared<Fpn>(channels, pyramid);
  parts.head = std::make_shared<SemanticFpnHead>(head, pyramid.channels, channels.size());
  return std::make_shared<EncoderDecoder>(
      "SemanticFpn",
      PixelLossOptions{.classes = classes, .class_weights = read_class_weights(criterion, classes)}, parts);
}

bool infer_semantic_fpn(Inference& in) {
  if (!in.has("decode_head.scale_heads.0.0.conv.weight") || !in.has("neck.lateral_convs.0.conv.weight"))
    return false;
  infer_backbone(in, "backbone.");
  const std::string own = "model.semantic_fpn.";
  in.set("model.num_classes", in.size("decode_head.conv_seg.weight", 0));
  in.set(own + "channels", in.size("neck.lateral_convs.0.conv.weight", 0));
  in.set(own + "head_channels", in.size("decode_head.conv_seg.weight", 1));
  return true;
}

[[maybe_unused]] const bool semantic_fpn_registered =
    model_types().add({.name = "semantic_fpn",
                       .summary = "Semantic FPN: the classes of pixels (Kirillov et al. 2019)",
                       .task = "segmentation",
                       .build = build_semantic_fpn,
                       .parts = {"semantic_fpn"},
                       .infer = infer_semantic_fpn});

}  // namespace
}  // namespace saccade
