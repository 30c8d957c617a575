#include "models/resnet/resnet_d.h"

#include <algorithm>

#include "models/common/conv_norm.h"
#include "models/common/stages.h"

namespace saccade {
namespace {

// The options shared by all convolutions of a stage.
struct StageOptions {
  bool bottleneck, frozen_norm, trains;

  ConvNormOptions conv(int64_t kernel, int64_t stride, Activation activation) const {
    return {kernel, stride, activation, frozen_norm, trains, init::kaiming_normal_fan_out()};
  }
};

// `short`: the shortcut of a stage's first block; a strided one has its convolution as `short.conv`.
class ShortcutD : public Module {
 public:
  ShortcutD(int64_t in, int64_t out, int64_t stride, const StageOptions& o) : stride_(stride) {
    conv_ = make_child<ConvNorm>(stride == 1 ? "" : "conv", in, out, o.conv(1, 1, Activation::kNone));
  }
  Var forward(const Var& x) { return conv_(stride_ == 1 ? x : avg_pool2d(x, stride_)); }
  std::string type_name() const override { return "Shortcut"; }

 private:
  int64_t stride_;
  Child<ConvNorm> conv_;
};

class ResidualBlockD : public Module {
 public:
  ResidualBlockD(int64_t in, int64_t width, int64_t stride, bool first, const StageOptions& o) {
    const int64_t out = o.bottleneck ? 4 * width : width;
    auto branch = [&](const char* name, int64_t from, int64_t to, int64_t kernel, int64_t s, Activation act) {
      branch_.push_back(make_child<ConvNorm>(name, from, to, o.conv(kernel, s, act)));
    };
    if (o.bottleneck) {
      branch("branch2a", in, width, 1, 1, Activation::kRelu);
      branch("branch2b", width, width, 3, stride, Activation::kRelu);
      branch("branch2c", width, out, 1, 1, Activation::kNone);
    } else {
      branch("branch2a", in, width, 3, stride, Activation::kRelu);
      branch("branch2b", width, out, 3, 1, Activation::kNone);
    }
    if (first) short_ = make_child<ShortcutD>("short", in, out, stride, o);
  }
  Var forward(const Var& x) {
    Var y = x;
    for (size_t i = 0; i + 1 < branch_.size(); ++i) y = branch_[i](y);
    return branch_.back()->forward_add_relu(y, [&] { return short_ ? short_(x) : x; });
  }
  std::string type_name() const override { return "ResidualBlock"; }

 private:
  std::vector<Child<ConvNorm>> branch_;
  Child<ShortcutD> short_;
};

class ResNetD : public Backbone {
 public:
  explicit ResNetD(const ResNetOptions& o) : outputs_(o.outputs) {
    auto options = [&](int64_t place) {
      return StageOptions{o.bottleneck, o.frozen_batch_norm, o.frozen_stages <= place};
    };
    const int64_t half = std::max<int64_t>(o.width / 2, 1);
    auto stem = [&](int i, int64_t in, int64_t out, int64_t stride) {
      stem_.push_back(make_child<ConvNorm>(fmt::format("conv1.conv1_{}", i), in, out,
                                           options(0).conv(3, stride, Activation::kRelu)));
    };
    stem(1, 3, half, 2);
    stem(2, half, half, 1);
    stem(3, half, o.width, 1);
    int64_t in = o.width;
    for (size_t s = 0; s < o.blocks.size(); ++s) {
      stages_.emplace_back();
      for (int64_t b = 0; b < o.blocks[s]; ++b) {
        stages_.back().push_back(make_child<ResidualBlockD>(fmt::format("res_layers.{}.blocks.{}", s, b), in,
                                                            o.width << s, b == 0 && s > 0 ? 2 : 1, b == 0,
                                                            options(static_cast<int64_t>(s) + 1)));
        in = (o.bottleneck ? 4 : 1) * (o.width << s);
      }
      stage_channels_.push_back(in);
    }
  }

  std::vector<Var> forward(const Var& images) override {
    Var x = images;
    for (auto& conv : stem_) x = conv(x);
    x = max_pool2d(x, 3, 2, 1);
    std::vector<Var> maps;
    for (int64_t s = 1; s <= outputs_.back(); ++s) {
      for (auto& block : stages_[static_cast<size_t>(s - 1)]) x = block(x);
      if (std::ranges::count(outputs_, s)) maps.push_back(x);
    }
    return maps;
  }
  std::vector<int64_t> channels() const override { return at_stages(stage_channels_, outputs_); }
  std::string type_name() const override { return "ResNet-vd"; }

 private:
  std::vector<int64_t> outputs_, stage_channels_;
  std::vector<Child<ConvNorm>> stem_;
  std::vector<std::vector<Child<ResidualBlockD>>> stages_;
};

}  // namespace

std::shared_ptr<Backbone> make_resnet_d(const ResNetOptions& options) {
  return std::make_shared<ResNetD>(options);
}

}  // namespace saccade
