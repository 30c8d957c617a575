// UperNet (Xiao et al. 2018, "Unified Perceptual Parsing for Scene Understanding") with an auxiliary FCN
// head, as mmsegmentation has it.
#include "models/build.h"
#include "models/segmentation/encoder_decoder.h"

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
      fail_input("{}.auxiliary_map: {}, but the backbone gives {} maps", own.path(), map, channels.size());
    parts.auxiliary = std::make_shared<FcnHead>(auxiliary, channels, static_cast<size_t>(map - 1));
  }
  return std::make_shared<EncoderDecoder>(
      "UperNet",
      PixelLossOptions{.classes = classes,
                       .class_weights = read_class_weights(criterion, classes),
                       .auxiliary_weight = auxiliary_weight},
      parts);
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
