// The names of Hugging Face's ResNet (torchvision's and timm's are ours), and what the weights of a ResNet tell of its
// configuration.
#include "models/resnet/resnet.h"
#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

// Both names where version 5 of transformers has others in memory than in its files.
const WeightRules kResNetNames{
    {"embedder.embedder.convolution.", "conv1."},
    {"embedder.embedder.normalization.", "bn1."},
    {"encoder.stages.*.layers.*.shortcut.convolution.", "layer+.*.downsample.0."},
    {"encoder.stages.*.layers.*.shortcut.normalization.", "layer+.*.downsample.1."},
    {"encoder.stages.*.layers.*.layer.*.convolution.", "layer+.*.conv+."},
    {"encoder.stages.*.layers.*.layer.*.normalization.", "layer+.*.bn+."},
    {"classifier.1.", "fc."},
};

[[maybe_unused]] const bool hugging_face_resnet =
    weight_namings().add({.name = "Hugging Face ResNet",
                          .file = __FILE__,
                          .markers = {"embedder.embedder.convolution.weight"},
                          .prefix = "resnet.",
                          .rules = kResNetNames,
                          .place = WeightNaming::kBackboneInDetectors});

}  // namespace

bool infer_resnet(Inference& in, const std::string& prefix) {
  if (!in.has(prefix + "conv1.weight") || !in.has(prefix + "layer4.0.conv1.weight")) return false;
  const std::string b = "model.backbone.";
  std::vector<int64_t> blocks;
  for (int stage = 1; stage <= 4; ++stage)
    blocks.push_back(in.count(fmt::format("{}layer{}.", prefix, stage), ".conv1.weight"));
  const bool bottleneck = in.has(prefix + "layer1.0.conv3.weight");
  const int64_t width = in.size(prefix + "conv1.weight", 0), depth = resnet_depth(blocks, bottleneck);
  if (depth > 0 && width == 64) {
    in.set(b + "depth", depth);
  } else {
    in.set(b + "blocks", blocks);
    in.set(b + "width", width);
    in.set(b + "bottleneck", bottleneck);
  }
  if (!in.given().get_section("backbone").has("dilation"))
    in.set(b + "dilation", in.argument_or("dilation", false, b + "dilation"));
  return true;
}

}  // namespace saccade
