// UperNet (Xiao et al. 2018, "Unified Perceptual Parsing for Scene Understanding") with an auxiliary FCN
// head, as in mmsegmentation.
#include <algorithm>

#include "models/backbone.h"
#include "models/build.h"
#include "models/segmentation/encoder_decoder.h"
#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

constexpr size_t kMaxPoolSizes = 16;

std::shared_ptr<Module> build_uper_net(const Args& model, int64_t classes, const Args& criterion) {
  const Args& own = model.get_section("uper_net");
  const PixelHeadOptions head{
      .classes = classes, .channels = own.get_int("channels"), .dropout = own.get_float("dropout")};
  const std::vector<int64_t> pool_sizes = own.get_ints("pool_sizes", {1, 2, 3, 6});
  if (pool_sizes.size() > kMaxPoolSizes)
    fail_input("{}.pool_sizes: {} numbers, expected at most {}", own.path(), pool_sizes.size(),
               kMaxPoolSizes);
  PixelHeadOptions auxiliary = head;
  auxiliary.channels = own.get_int("auxiliary_channels");
  const int64_t map = own.get_int("auxiliary_map");
  const double auxiliary_weight = own.get_float("auxiliary_weight");
  own.finish("UperNet");
  EncoderDecoder::Parts parts;
  parts.backbone = build_backbone(model.get_section("backbone"), kSegmentedStages);
  const std::vector<int64_t> channels = parts.backbone->channels();
  parts.head = std::make_shared<UperHead>(head, channels, pool_sizes);
  if (auxiliary.channels > 0) {
    if (map > std::ssize(channels))
      fail_input("{}.auxiliary_map: {}, but the backbone has {} maps", own.path(), map, channels.size());
    parts.auxiliary = std::make_shared<FcnHead>(auxiliary, channels, static_cast<size_t>(map - 1));
  }
  return std::make_shared<EncoderDecoder>(
      "UperNet",
      PixelLossOptions{.classes = classes,
                       .class_weights = read_class_weights(criterion, classes),
                       .auxiliary_weight = auxiliary_weight},
      parts);
}

const std::string kHuggingFaceUperNet = "Hugging Face UperNet";
const std::string kHead = "decode_head.", kAuxiliary = "auxiliary_head.", kClasses = "conv_seg.weight";
const std::vector<int64_t> kUsualPoolSizes{1, 2, 3, 6};

// The names of transformers; mmsegmentation's are ours.
const WeightRules kUperNetNames{
    {"decode_head.classifier.", "decode_head.conv_seg."},
    {"decode_head.psp_modules.*.1.batch_norm.", "decode_head.psp_modules.*.1.bn."},
    {"decode_head.bottleneck.batch_norm.", "decode_head.bottleneck.bn."},
    {"decode_head.lateral_convs.*.batch_norm.", "decode_head.lateral_convs.*.bn."},
    {"decode_head.fpn_convs.*.batch_norm.", "decode_head.fpn_convs.*.bn."},
    {"decode_head.fpn_bottleneck.batch_norm.", "decode_head.fpn_bottleneck.bn."},
    {"auxiliary_head.convs.*.batch_norm.", "auxiliary_head.convs.*.bn."},
    {"auxiliary_head.classifier.", "auxiliary_head.conv_seg."},
};

// Unused: the last norm of a Swin classifier, which transformers has kept in its backbone since version 5.
[[maybe_unused]] const bool hugging_face_uper_net =
    weight_namings().add({.name = kHuggingFaceUperNet,
                          .markers = {"decode_head.psp_modules.0.1.batch_norm.weight"},
                          .rules = kUperNetNames,
                          .scope = WeightNaming::kDetector,
                          .unused = {"backbone.swin.layernorm.", "backbone.layernorm."}});

void infer_pooling(Inference& in) {
  const std::string field = "model.uper_net.pool_sizes";
  const Args& given = in.given().get_section("uper_net");
  const int64_t count = in.count(kHead + "psp_modules.", ".1.conv.weight");
  if (given.has("pool_sizes")) return;
  if (count != std::ssize(kUsualPoolSizes))
    fail_input("{}: {} pooled maps, whose sizes are not in the file (--set {}=...)", in.path(), count, field);
  in.set(field, kUsualPoolSizes);
  in.assumed.push_back(fmt::format("{}: {}", field, fmt::join(kUsualPoolSizes, ",")));
}

void infer_auxiliary(Inference& in) {
  const std::string own = "model.uper_net.", conv = kAuxiliary + "convs.0.conv.weight";
  if (!in.has(kAuxiliary + kClasses)) return in.set(own + "auxiliary_channels", 0);
  in.expect_in_json<int64_t>("auxiliary_num_convs", 1);
  in.expect_in_json<bool>("auxiliary_concat_input", false);
  in.set(own + "auxiliary_channels", in.size(conv, 0));
  std::vector<int64_t> channels;  // of the maps
  const int64_t lateral = in.count(kHead + "lateral_convs.", ".conv.weight");
  for (int64_t l = 0; l < lateral; ++l)
    channels.push_back(in.size(fmt::format("{}lateral_convs.{}.conv.weight", kHead, l), 1));
  channels.push_back(in.size(kHead + "psp_modules.0.1.conv.weight", 1));
  const auto map = std::ranges::find(channels, in.size(conv, 1));
  if (map == channels.end())
    fail_input("{}: the auxiliary head reads {} channels, expected those of one of the maps ({})", in.path(),
               in.size(conv, 1), fmt::join(channels, ", "));
  in.set(own + "auxiliary_map", map - channels.begin() + 1);
  if (const auto weight = in.argument<double>("auxiliary_loss_weight"))
    in.set(own + "auxiliary_weight", *weight);
}

bool infer_uper_net(Inference& in) {
  if (!in.has(kHead + "psp_modules.0.1.conv.weight") || !in.has(kHead + "fpn_bottleneck.conv.weight"))
    return false;
  infer_backbone(in, "backbone.");
  in.set("model.num_classes", in.size(kHead + kClasses, 0));
  in.set("model.uper_net.channels", in.size(kHead + kClasses, 1));
  infer_pooling(in);
  infer_auxiliary(in);
  if (in.naming() == kHuggingFaceUperNet) in.set("criterion.mean_over_labelled", true);
  return true;
}

[[maybe_unused]] const bool uper_net_registered =
    model_types().add({.name = "uper_net",
                       .summary = "UperNet: the classes of pixels (Xiao et al. 2018)",
                       .task = "segmentation",
                       .build = build_uper_net,
                       .parts = {"uper_net"},
                       .infer = infer_uper_net});

}  // namespace
}  // namespace saccade
