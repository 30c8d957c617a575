#include "models/resnet/resnet.h"

#include "layers/module_scope.h"
#include "models/common/stages.h"

namespace saccade {
namespace {

std::shared_ptr<Conv2d> make_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                                  bool trainable) {
  Conv2dOptions options{.stride = stride, .padding = kernel / 2 * dilation, .dilation = dilation};
  return std::make_shared<Conv2d>(in, out, kernel, options,
                                  Conv2dInit{.bias = false, .weight = init::kaiming_normal_fan_out()},
                                  trainable);
}

// `downsample.0` and `downsample.1` of the official names.
class Downsample : public Module {
 public:
  Downsample(int64_t in, int64_t out, int64_t stride, bool frozen_norm, bool trainable) {
    conv_ = child("0", make_conv(in, out, 1, stride, 1, trainable));
    norm_ = make_child<BatchNorm2d>("1", out, frozen_norm, trainable);
  }
  Var forward(const Var& x) { return norm_->forward(conv_->forward(x)); }
  std::string type_name() const override { return "Downsample"; }

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm2d> norm_;
};

}  // namespace

// relu(x' + F(x)): F is two 3x3 convolutions (basic) or 1x1, 3x3, 1x1 with four times the channels
// (bottleneck).
class ResNet::Block : public Module {
 public:
  Block(int64_t in, int64_t width, bool bottleneck, int64_t stride, int64_t dilation, bool frozen_norm,
        bool trainable) {
    int64_t out = bottleneck ? 4 * width : width;
    auto add_pair = [&](int64_t i, int64_t from, int64_t to, int64_t kernel, int64_t s, int64_t d) {
      convs_.push_back(child(fmt::format("conv{}", i), make_conv(from, to, kernel, s, d, trainable)));
      norms_.push_back(make_child<BatchNorm2d>(fmt::format("bn{}", i), to, frozen_norm, trainable));
    };
    if (bottleneck) {
      add_pair(1, in, width, 1, 1, 1);
      add_pair(2, width, width, 3, stride, dilation);
      add_pair(3, width, out, 1, 1, 1);
    } else {
      add_pair(1, in, width, 3, stride, dilation);
      add_pair(2, width, out, 3, 1, 1);
    }
    if (stride != 1 || in != out)
      downsample_ = make_child<Downsample>("downsample", in, out, stride, frozen_norm, trainable);
  }

  Var forward(const Var& x) {
    ModuleScope scope(*this);
    Var y = x;
    for (size_t i = 0; i < convs_.size(); ++i)
      y = norms_[i]->forward(convs_[i]->forward(y),
                             i + 1 < convs_.size() ? Activation::kRelu : Activation::kNone);
    return add_relu(y, downsample_ ? downsample_->forward(x) : x);
  }
  std::string type_name() const override { return "ResidualBlock"; }

 private:
  std::vector<std::shared_ptr<Conv2d>> convs_;
  std::vector<std::shared_ptr<BatchNorm2d>> norms_;
  std::shared_ptr<Downsample> downsample_;
};

struct ResNet::Stage : public Module {
  std::vector<std::shared_ptr<Block>> blocks;

  void add(std::shared_ptr<Block> block) {
    blocks.push_back(child(std::to_string(blocks.size()), std::move(block)));
  }
  Var forward(Var x) {
    ModuleScope scope(*this);
    for (auto& block : blocks) x = block->forward(x);
    return x;
  }
  std::string type_name() const override { return "Stage"; }
};

ResNet::ResNet(const ResNetOptions& options) : options_(options) {
  bool stem_trains = options.frozen_stages < 1;
  conv1_ =
      child("conv1", std::make_shared<Conv2d>(
                         3, options.width, 7, Conv2dOptions{.stride = 2, .padding = 3},
                         Conv2dInit{.bias = false, .weight = init::kaiming_normal_fan_out()}, stem_trains));
  bn1_ = make_child<BatchNorm2d>("bn1", options.width, options.frozen_batch_norm, stem_trains);
  int64_t in = options.width;
  for (size_t s = 0; s < options.blocks.size(); ++s) {
    auto stage = make_child<Stage>(fmt::format("layer{}", s + 1));
    bool trains = options.frozen_stages < static_cast<int64_t>(s) + 2;
    bool dilates = options.dilation && s + 1 == options.blocks.size();
    int64_t width = options.width << s;
    for (int64_t b = 0; b < options.blocks[s]; ++b) {
      // With dilation the first block keeps the previous dilation (1) and loses its stride (torchvision's
      // rule).
      int64_t stride = b == 0 && s > 0 && !dilates ? 2 : 1, dilation = dilates && b > 0 ? 2 : 1;
      stage->add(std::make_shared<Block>(in, width, options.bottleneck, stride, dilation,
                                         options.frozen_batch_norm, trains));
      in = options.bottleneck ? 4 * width : width;
    }
    stage_channels_.push_back(in);
    stages_.push_back(stage);
  }
}

std::vector<Var> ResNet::forward(const Var& images) {
  ModuleScope scope(*this);
  Var x = max_pool2d(bn1_->forward(conv1_->forward(images), Activation::kRelu), 3, 2, 1);
  std::vector<Var> maps;
  for (int64_t s = 1; s <= options_.outputs.back(); ++s) {
    x = stages_[static_cast<size_t>(s - 1)]->forward(x);
    if (std::ranges::count(options_.outputs, s)) maps.push_back(x);
  }
  return maps;
}

std::vector<int64_t> ResNet::channels() const { return at_stages(stage_channels_, options_.outputs); }

namespace {

// The choices of model.backbone.depth.
struct OfficialResNet {
  int64_t depth;
  std::vector<int64_t> blocks;
  bool bottleneck;
};
const OfficialResNet kOfficial[] = {{18, {2, 2, 2, 2}, false},
                                    {34, {3, 4, 6, 3}, false},
                                    {50, {3, 4, 6, 3}, true},
                                    {101, {3, 4, 23, 3}, true}};

// Empty outputs: the last stage.
ResNetOptions read_options(const Args& args, const std::vector<int64_t>& default_outputs) {
  ResNetOptions options;
  int64_t depth = args.get_int("depth");
  std::vector<int64_t> blocks = args.get_ints("blocks", {});
  options.bottleneck = args.get_bool("bottleneck");
  if (blocks.empty()) {
    const auto official =
        std::ranges::find_if(kOfficial, [&](const OfficialResNet& model) { return model.depth == depth; });
    SACCADE_CHECK(official != std::end(kOfficial), "[resnet] no depth {}", depth);
    blocks = official->blocks;
    options.bottleneck = official->bottleneck;
  }
  if (blocks.empty() || blocks.size() > 8 || *std::min_element(blocks.begin(), blocks.end()) < 1)
    fail_input("{}.blocks: expected one to eight stages of at least one block", args.path());
  options.blocks = blocks;
  options.width = args.get_int("width");
  options.dilation = args.get_bool("dilation");
  options.frozen_batch_norm = args.get_bool("frozen_batch_norm");
  options.frozen_stages = args.get_int("frozen_stages");
  if (options.frozen_stages > std::ssize(blocks) + 1)
    fail_input("{}.frozen_stages: {} is out of range, expected 0 to {}", args.path(), options.frozen_stages,
               std::ssize(blocks) + 1);
  options.outputs = read_outputs(args, default_outputs, std::ssize(blocks));
  args.finish();
  return options;
}

std::shared_ptr<Backbone> build_resnet(const Args& args, const std::vector<int64_t>& default_outputs) {
  return std::make_shared<ResNet>(read_options(args, default_outputs));
}

// Outputs other than the last stage are an error.
std::shared_ptr<Classifier> build_resnet_classifier(const Args& backbone, int64_t num_classes) {
  ResNetOptions options = read_options(backbone, {});
  auto last = static_cast<int64_t>(options.blocks.size());
  if (options.outputs != std::vector<int64_t>{last})
    fail_input("{}.outputs: a classifier reads stage {} only, expected none or this one", backbone.path(),
               last);
  return std::make_shared<ResNetClassifier>(options, num_classes);
}

SACCADE_REGISTER_BACKBONE(resnet, build_resnet, build_resnet_classifier, infer_resnet);

}  // namespace

int64_t resnet_depth(const std::vector<int64_t>& blocks, bool bottleneck) {
  for (const OfficialResNet& model : kOfficial)
    if (model.blocks == blocks && model.bottleneck == bottleneck) return model.depth;
  return 0;
}

ResNetClassifier::ResNetClassifier(const ResNetOptions& options, int64_t num_classes) {
  body_ = child("", std::make_shared<ResNet>(options));
  fc_ = make_child<Linear>("fc", body_->channels().back(), num_classes);
}

Var ResNetClassifier::forward(const Var& images) {
  ModuleScope scope(*this);
  const int space[] = {1, 2};
  return fc_->forward(mean(body_->forward(images).back(), space));
}

}  // namespace saccade
