// ResNet v1.5 (He et al. 2016; stride in the 3x3 convolution) with torchvision's parameter names, the same
// with the stem of mmsegmentation's ResNetV1c, and the registration of all variants.
#include <array>

#include "layers/conv2d.h"
#include "layers/norm.h"
#include "models/backbone.h"
#include "models/common/conv_norm.h"
#include "models/common/pooled_classifier.h"
#include "models/common/stages.h"
#include "models/resnet/resnet_d.h"
#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

std::shared_ptr<Conv2d> make_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                                  bool trainable) {
  Conv2dOptions options{.stride = stride, .padding = kernel / 2 * dilation, .dilation = dilation};
  return std::make_shared<Conv2d>(in, out, kernel, options,
                                  Conv2dInit{.bias = false, .weight = init::kaiming_normal_fan_out()},
                                  trainable);
}

// Whether the norms of a block are frozen, keep their statistics and are trained.
struct NormOptions {
  bool frozen, keeps_statistics, trainable;
};

std::shared_ptr<BatchNorm2d> make_norm(int64_t channels, const NormOptions& o) {
  return std::make_shared<BatchNorm2d>(channels, o.frozen, o.trainable, false, o.keeps_statistics);
}

// `downsample.0` and `downsample.1` of the official names.
class Downsample : public Module {
 public:
  Downsample(int64_t in, int64_t out, int64_t stride, const NormOptions& norm) {
    conv_ = child("0", make_conv(in, out, 1, stride, 1, norm.trainable));
    norm_ = child("1", make_norm(out, norm));
  }
  Var forward(const Var& x) { return conv_then_norm(*this, *conv_, *norm_, cache_, x); }

 private:
  Child<Conv2d> conv_;
  Child<BatchNorm2d> norm_;
  FoldedConvCache cache_;
};

// relu(x' + F(x)), where F is two 3x3 convolutions (basic) or 1x1, 3x3, 1x1 with four times the channels
// (bottleneck).
class ResidualBlock : public Module {
 public:
  ResidualBlock(int64_t in, int64_t width, bool bottleneck, int64_t stride, int64_t dilation,
                const NormOptions& norm) {
    int64_t out = bottleneck ? 4 * width : width;
    auto add_pair = [&](int64_t i, int64_t from, int64_t to, int64_t kernel, int64_t s, int64_t d) {
      convs_.push_back(child(fmt::format("conv{}", i), make_conv(from, to, kernel, s, d, norm.trainable)));
      norms_.push_back(child(fmt::format("bn{}", i), make_norm(to, norm)));
    };
    if (bottleneck) {
      add_pair(1, in, width, 1, 1, 1);
      add_pair(2, width, width, 3, stride, dilation);
      add_pair(3, width, out, 1, 1, 1);
    } else {
      add_pair(1, in, width, 3, stride, dilation);
      add_pair(2, width, out, 3, 1, 1);
    }
    if (stride != 1 || in != out) downsample_ = make_child<Downsample>("downsample", in, out, stride, norm);
  }

  Var forward(const Var& x) {
    const size_t last = convs_.size() - 1;
    Var y = x;
    for (size_t i = 0; i < last; ++i)
      y = conv_then_norm(*this, *convs_[i], *norms_[i], caches_[i], y, Activation::kRelu);
    return conv_norm_add_relu(*this, *convs_[last], *norms_[last], caches_[last], y,
                              [&] { return downsample_ ? downsample_(x) : x; });
  }

 private:
  std::vector<Child<Conv2d>> convs_;
  std::vector<Child<BatchNorm2d>> norms_;
  std::array<FoldedConvCache, 3> caches_;
  Child<Downsample> downsample_;
};

struct ResNetStage : public Module {
  std::vector<Child<ResidualBlock>> blocks;

  void add(std::shared_ptr<ResidualBlock> block) {
    blocks.push_back(child(std::to_string(blocks.size()), std::move(block)));
  }
  Var forward(Var x) {
    for (auto& block : blocks) x = block(x);
    return x;
  }
  std::string type_name() const override { return "Stage"; }
};

class ResNet : public Backbone {
 public:
  explicit ResNet(const ResNetOptions& options) : options_(options) {
    bool stem_trains = options.frozen_stages < 1;
    NormOptions norm{options.frozen_batch_norm, options.frozen_statistics, stem_trains};
    auto stem = [&](const char* conv, const char* bn, int64_t from, int64_t to, int64_t kernel, int64_t s) {
      stem_convs_.push_back(child(conv, make_conv(from, to, kernel, s, 1, stem_trains)));
      stem_norms_.push_back(child(bn, make_norm(to, norm)));
    };
    if (options.variant_c) {
      const int64_t half = std::max<int64_t>(options.width / 2, 1);
      stem("stem.0", "stem.1", 3, half, 3, 2);
      stem("stem.3", "stem.4", half, half, 3, 1);
      stem("stem.6", "stem.7", half, options.width, 3, 1);
    } else {
      stem("conv1", "bn1", 3, options.width, 7, 2);
    }
    int64_t in = options.width;
    for (size_t s = 0; s < options.blocks.size(); ++s) {
      auto stage = make_child<ResNetStage>(fmt::format("layer{}", s + 1));
      norm.trainable = options.frozen_stages < static_cast<int64_t>(s) + 2;
      bool dilates = options.dilation && s + 1 == options.blocks.size();
      int64_t width = options.width << s;
      for (int64_t b = 0; b < options.blocks[s]; ++b) {
        // With dilation the first block keeps the previous dilation (1) and loses its stride (torchvision's
        // rule).
        int64_t stride = b == 0 && s > 0 && !dilates ? 2 : 1, dilation = dilates && b > 0 ? 2 : 1;
        stage->add(std::make_shared<ResidualBlock>(in, width, options.bottleneck, stride, dilation, norm));
        in = options.bottleneck ? 4 * width : width;
      }
      stage_channels_.push_back(in);
      stages_.push_back(stage);
    }
  }

  std::vector<Var> forward(const Var& images) override {
    Var x = images;
    for (size_t i = 0; i < stem_convs_.size(); ++i)
      x = conv_then_norm(*this, *stem_convs_[i], *stem_norms_[i], caches_[i], x, Activation::kRelu);
    x = max_pool2d(x, 3, 2, 1);
    std::vector<Var> maps;
    for (int64_t s = 1; s <= options_.outputs.back(); ++s) {
      x = stages_[static_cast<size_t>(s - 1)](x);
      if (std::ranges::count(options_.outputs, s)) maps.push_back(x);
    }
    return maps;
  }

  std::vector<int64_t> channels() const override { return at_stages(stage_channels_, options_.outputs); }

 private:
  ResNetOptions options_;
  std::vector<Child<Conv2d>> stem_convs_;
  std::vector<Child<BatchNorm2d>> stem_norms_;
  std::array<FoldedConvCache, 3> caches_;  // of the stem
  std::vector<Child<ResNetStage>> stages_;
  std::vector<int64_t> stage_channels_;
};

// The options of model.backbone.depth.
struct OfficialResNet {
  int64_t depth;
  std::vector<int64_t> blocks;
  bool bottleneck;
};
const OfficialResNet kOfficialResNets[] = {{18, {2, 2, 2, 2}, false},
                                           {34, {3, 4, 6, 3}, false},
                                           {50, {3, 4, 6, 3}, true},
                                           {101, {3, 4, 23, 3}, true}};

// Empty outputs stand for the last stage.
ResNetOptions read_resnet(const Args& args, const std::vector<int64_t>& default_outputs) {
  ResNetOptions options;
  int64_t depth = args.get_int("depth");
  std::vector<int64_t> blocks = args.get_ints("blocks", {}, 1, kMaxBlocks);
  options.bottleneck = args.get_bool("bottleneck");
  if (blocks.empty()) {
    const auto official = std::ranges::find_if(
        kOfficialResNets, [&](const OfficialResNet& model) { return model.depth == depth; });
    if (official == std::end(kOfficialResNets))
      fail_input("{}.depth: {} is not the depth of a ResNet", args.path(), depth);
    blocks = official->blocks;
    options.bottleneck = official->bottleneck;
  }
  if (blocks.size() > kMaxStages)
    fail_input("{}.blocks: {} stages, expected 1 to {}", args.path(), blocks.size(), kMaxStages);
  options.blocks = blocks;
  options.width = args.get_int("width");
  options.variant_c = args.get_string("variant") == "c";
  options.variant_d = args.get_string("variant") == "d";
  options.dilation = args.get_bool("dilation");
  if (options.variant_d && options.dilation)
    fail_input("{}.dilation: variant d has none, expected false", args.path());
  options.frozen_batch_norm = args.get_bool("frozen_batch_norm");
  options.frozen_statistics = args.get_bool("frozen_statistics");
  if (options.frozen_statistics && (options.frozen_batch_norm || options.variant_d))
    fail_input("{}.frozen_statistics: {}, expected false", args.path(),
               options.variant_d ? "variant d has none" : "frozen_batch_norm freezes all of a norm");
  options.frozen_stages = args.get_int("frozen_stages");
  if (options.frozen_stages > std::ssize(blocks) + 1)
    fail_input("{}.frozen_stages: {} is out of range, expected 0 to {}", args.path(), options.frozen_stages,
               std::ssize(blocks) + 1);
  options.outputs = read_outputs(args, default_outputs, std::ssize(blocks));
  args.finish();
  return options;
}

std::shared_ptr<Backbone> make_resnet(const ResNetOptions& options) {
  return options.variant_d ? make_resnet_d(options) : std::make_shared<ResNet>(options);
}

std::shared_ptr<Backbone> build_resnet(const Args& args, const std::vector<int64_t>& default_outputs) {
  return make_resnet(read_resnet(args, default_outputs));
}

// Outputs other than the last stage are an error.
std::shared_ptr<Classifier> build_resnet_classifier(const Args& backbone, int64_t num_classes) {
  ResNetOptions options = read_resnet(backbone, {});
  auto last = static_cast<int64_t>(options.blocks.size());
  if (options.outputs != std::vector<int64_t>{last})
    fail_input("{}.outputs: a classifier only reads stage {}, expected none or this one", backbone.path(),
               last);
  return std::make_shared<PooledClassifier>("ResNetClassifier", make_resnet(options), "fc", num_classes);
}

// Sets the fields that identify the ResNet.
void infer_size(Inference& in, const std::vector<int64_t>& blocks, bool bottleneck, int64_t width) {
  const std::string b = "model.backbone.";
  const auto official = std::ranges::find_if(kOfficialResNets, [&](const OfficialResNet& model) {
    return model.blocks == blocks && model.bottleneck == bottleneck && width == 64;
  });
  if (official != std::end(kOfficialResNets)) {
    in.set(b + "depth", official->depth);
  } else {
    in.set(b + "blocks", blocks);
    in.set(b + "width", width);
    in.set(b + "bottleneck", bottleneck);
  }
}

bool infer_resnet_d(Inference& in, const std::string& prefix) {
  const std::string stem = prefix + "conv1.conv1_3.conv.weight";
  if (!in.has(stem)) return false;
  std::vector<int64_t> blocks;
  auto stage = [&] { return fmt::format("{}res_layers.{}.blocks.", prefix, blocks.size()); };
  while (in.has(stage() + "0.branch2a.conv.weight"))
    blocks.push_back(in.count(stage(), ".branch2a.conv.weight"));
  infer_size(in, blocks, in.has(prefix + "res_layers.0.blocks.0.branch2c.conv.weight"), in.size(stem, 0));
  in.set("model.backbone.variant", "d");
  return true;
}

bool infer_resnet(Inference& in, const std::string& prefix) {
  if (infer_resnet_d(in, prefix)) return true;
  const bool variant_c = in.has(prefix + "stem.6.weight");
  const std::string stem = prefix + (variant_c ? "stem.6.weight" : "conv1.weight");
  if (!in.has(stem) || !in.has(prefix + "layer4.0.conv1.weight")) return false;
  const std::string b = "model.backbone.";
  if (variant_c) in.set(b + "variant", "c");
  std::vector<int64_t> blocks;
  for (int stage = 1; stage <= 4; ++stage)
    blocks.push_back(in.count(fmt::format("{}layer{}.", prefix, stage), ".conv1.weight"));
  infer_size(in, blocks, in.has(prefix + "layer1.0.conv3.weight"), in.size(stem, 0));
  if (!in.given().get_section("backbone").has("dilation"))
    in.set(b + "dilation", in.argument_or("dilation", false, b + "dilation"));
  return true;
}

bool infer_resnet_classifier(Inference& in) {
  if (!in.has("fc.weight") || !infer_resnet(in, "")) return false;
  infer_classes(in, "fc.", {.interpolation = "bilinear"});
  return true;
}

SACCADE_REGISTER_BACKBONE(resnet, build_resnet, build_resnet_classifier, infer_resnet, true,
                          infer_resnet_classifier);

// Has both names where version 5 of transformers uses other names in memory than in its files.
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
                          .markers = {"embedder.embedder.convolution.weight"},
                          .prefix = "resnet.",
                          .rules = kResNetNames,
                          .scope = WeightNaming::kBackboneInDetectors});

}  // namespace
}  // namespace saccade
