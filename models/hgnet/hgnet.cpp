// HGNetv2 (PaddleClas' PP-HGNet, second version), the backbone of D-FINE and DEIM, with the parameter names
// of their code: a stem of two branches, then four stages of blocks that concatenate the outputs of all their
// layers.
#include <algorithm>
#include <array>
#include <tuple>

#include "models/backbone.h"
#include "models/common/conv_norm.h"
#include "models/common/stages.h"
#include "models/weights/inference.h"

namespace saccade {
namespace {

struct Stage {
  int64_t hidden, out, blocks;
  bool operator==(const Stage&) const = default;
};

struct Size {
  std::string name;
  int64_t layers;  // per block
  int64_t stem, stem_out;
  std::array<Stage, 4> stages;
};

const Size kSizes[] = {
    {"b0", 3, 16, 16, {{{16, 64, 1}, {32, 256, 1}, {64, 512, 2}, {128, 1024, 1}}}},
    {"b1", 3, 24, 32, {{{32, 64, 1}, {48, 256, 1}, {96, 512, 2}, {192, 1024, 1}}}},
    {"b2", 4, 24, 32, {{{32, 96, 1}, {64, 384, 1}, {128, 768, 3}, {256, 1536, 1}}}},
    {"b3", 5, 24, 32, {{{32, 128, 1}, {64, 512, 1}, {128, 1024, 3}, {256, 2048, 1}}}},
    {"b4", 6, 32, 48, {{{48, 128, 1}, {96, 512, 1}, {192, 1024, 3}, {384, 2048, 1}}}},
    {"b5", 6, 32, 64, {{{64, 128, 1}, {128, 512, 2}, {256, 1024, 5}, {512, 2048, 2}}}},
    {"b6", 6, 48, 96, {{{96, 192, 2}, {192, 512, 3}, {384, 1024, 6}, {768, 2048, 3}}}},
};

struct HgNetOptions {
  Size size;
  bool affine = false;  // adds a LearnedAffine after every activation
  bool frozen_norm = false;
  int64_t frozen_stages = 0;
  std::vector<int64_t> outputs;

  ConvNormOptions conv(int64_t stage, int64_t kernel, int64_t stride, Activation activation) const {
    return {.kernel = kernel,
            .stride = stride,
            .activation = activation,
            .frozen_norm = frozen_norm,
            .trainable = frozen_stages <= stage,
            .counts_affine = false,
            .norm_name = "bn"};
  }
};

// scale * x + bias with two scalars, which helps small networks (PaddleClas' "LAB").
class LearnedAffine : public Module {
 public:
  explicit LearnedAffine(bool trainable) {
    scale_ = param("scale", {1}, init::constant(1), trainable);
    bias_ = param("bias", {1}, init::constant(0), trainable);
  }
  Var forward(const Var& x) const { return add(mul(x, scale_), bias_); }
  const Var& scale() const { return scale_; }
  const Var& bias() const { return bias_; }

 private:
  Var scale_, bias_;
};

// A convolution with its norm, a ReLU and, if the network has them, a learned affine step (`lab`).
class ConvRelu : public Module {
 public:
  ConvRelu(int64_t in, int64_t out, const HgNetOptions& o, const ConvNormOptions& conv) {
    conv_ = make_child<ConvNorm>("", in, out, conv);
    if (o.affine) affine_ = make_child<LearnedAffine>("lab", conv.trainable);
  }
  Var forward(const Var& x) {
    if (!affine_) return conv_(x);
    if (!runs_folded(*this)) {
      cache_.clear();
      return affine_(conv_(x));
    }
    std::vector<Var> sources = conv_->sources();
    sources.push_back(affine_->scale());
    const FoldedConv folded = cache_.get(sources, [&] { return scaled(); });
    if (negative_) return affine_(conv_(x));
    return conv2d_relu_shift(x, folded.weight, folded.bias, affine_->bias(), conv_->options());
  }

 private:
  // Unless the scale is negative, scale * relu(y) + bias = relu(scale * y) + bias.
  FoldedConv scaled() {
    const Var& scale = affine_->scale();
    negative_ = scale.value().to(Device::kCpu).item() < 0;
    const FoldedConv conv = conv_->folded();
    return {mul(conv.weight, scale), mul(conv.bias, scale)};
  }
  bool negative_ = false;
  Child<ConvNorm> conv_;
  Child<LearnedAffine> affine_;
  FoldedConvCache cache_;
};

// Pads with a row and a column of zeros at the end.
Var pad_end(const Var& x) {
  auto zeros = [&](const Shape& shape) { return Var(Tensor::zeros(shape, x.dtype(), x.device())); };
  const Var wide = concat({x, zeros({x.dim(0), x.dim(1), 1, x.dim(3)})}, 2);
  return concat({wide, zeros({x.dim(0), 1, wide.dim(2), x.dim(3)})}, 1);
}

// [N, H, W, 3] -> [N, H / 4, W / 4, out]
class HgStem : public Module {
 public:
  explicit HgStem(const HgNetOptions& o) {
    const int64_t mid = o.size.stem;
    auto conv = [&](const char* name, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
      ConvNormOptions options = o.conv(0, kernel, stride, Activation::kRelu);
      options.padded = kernel == 3;
      return make_child<ConvRelu>(name, in, out, o, options);
    };
    stem1_ = conv("stem1", 3, mid, 3, 2);
    stem2a_ = conv("stem2a", mid, mid / 2, 2, 1);
    stem2b_ = conv("stem2b", mid / 2, mid, 2, 1);
    stem3_ = conv("stem3", 2 * mid, mid, 3, 2);
    stem4_ = conv("stem4", mid, o.size.stem_out, 1, 1);
  }
  Var forward(const Var& images) {
    const Var x = pad_end(stem1_(images));
    const Var y = stem2b_(pad_end(stem2a_(x)));
    return stem4_(stem3_(concat({max_pool2d(x, 2, 1, 0), y}, -1)));
  }

 private:
  Child<ConvRelu> stem1_, stem2a_, stem2b_, stem3_, stem4_;
};

// A 1x1 convolution without activation, then a depthwise convolution.
class LightConv : public Module {
 public:
  LightConv(int64_t in, int64_t out, const HgNetOptions& o, int64_t stage, int64_t kernel) {
    conv1_ = make_child<ConvNorm>("conv1", in, out, o.conv(stage, 1, 1, Activation::kNone));
    ConvNormOptions depthwise = o.conv(stage, kernel, 1, Activation::kRelu);
    depthwise.groups = out;
    conv2_ = make_child<ConvRelu>("conv2", out, out, o, depthwise);
  }
  Var forward(const Var& x) { return conv2_(conv1_(x)); }

 private:
  Child<ConvNorm> conv1_;
  Child<ConvRelu> conv2_;
};

// A chain of layers; the input and all their outputs are concatenated and reduced to `out` channels. All
// blocks except the first of a stage have a residual connection.
class HgBlock : public Module {
 public:
  HgBlock(int64_t in, const Stage& s, const HgNetOptions& o, int64_t stage, bool first) : residual_(!first) {
    for (int64_t l = 0; l < o.size.layers; ++l) {
      const std::string name = fmt::format("layers.{}", l);
      const int64_t from = l == 0 ? in : s.hidden;
      if (stage <= 2)
        plain_.push_back(
            make_child<ConvRelu>(name, from, s.hidden, o, o.conv(stage, 3, 1, Activation::kRelu)));
      else
        light_.push_back(make_child<LightConv>(name, from, s.hidden, o, stage, 5));
    }
    const ConvNormOptions point = o.conv(stage, 1, 1, Activation::kRelu);
    squeeze_ = make_child<ConvRelu>("aggregation.0", in + o.size.layers * s.hidden, s.out / 2, o, point);
    excite_ = make_child<ConvRelu>("aggregation.1", s.out / 2, s.out, o, point);
  }
  Var forward(const Var& x) {
    Vars all{x};
    for (auto& layer : plain_) all.push_back(layer(all.back()));
    for (auto& layer : light_) all.push_back(layer(all.back()));
    const Var y = excite_(squeeze_(concat(all, -1)));
    return residual_ ? add(y, x) : y;
  }

 private:
  bool residual_;
  std::vector<Child<ConvRelu>> plain_;
  std::vector<Child<LightConv>> light_;
  Child<ConvRelu> squeeze_, excite_;
};

class HgNet : public Backbone {
 public:
  explicit HgNet(const HgNetOptions& o) : outputs_(o.outputs) {
    stem_ = make_child<HgStem>("stem", o);
    int64_t in = o.size.stem_out;
    for (size_t s = 0; s < o.size.stages.size(); ++s) {
      const Stage& stage = o.size.stages[s];
      const auto number = static_cast<int64_t>(s) + 1;
      ConvNormOptions halving = o.conv(number, 3, 2, Activation::kNone);
      halving.groups = in;
      downsample_.push_back(
          s == 0 ? nullptr : make_child<ConvNorm>(fmt::format("stages.{}.downsample", s), in, in, halving));
      blocks_.emplace_back();
      for (int64_t b = 0; b < stage.blocks; ++b) {
        blocks_[s].push_back(
            make_child<HgBlock>(fmt::format("stages.{}.blocks.{}", s, b), in, stage, o, number, b == 0));
        in = stage.out;
      }
      stage_channels_.push_back(in);
    }
  }
  std::vector<Var> forward(const Var& images) override {
    std::vector<Var> maps;
    Var x = stem_(images);
    for (size_t s = 0; s < static_cast<size_t>(outputs_.back()); ++s) {
      if (downsample_[s]) x = downsample_[s](x);
      for (auto& block : blocks_[s]) x = block(x);
      maps.push_back(x);
    }
    return at_stages(maps, outputs_);
  }
  std::vector<int64_t> channels() const override { return at_stages(stage_channels_, outputs_); }
  std::string type_name() const override { return "HGNetv2"; }

 private:
  std::vector<int64_t> outputs_, stage_channels_;
  Child<HgStem> stem_;
  std::vector<Child<ConvNorm>> downsample_;  // null for the first stage
  std::vector<std::vector<Child<HgBlock>>> blocks_;
};

constexpr const char* kOwn = "own";
constexpr int64_t kMaxChannels = 8192;

// Returns an official size or a user-defined one.
Size read_size(const Args& args) {
  std::vector<std::string> names;
  for (const Size& size : kSizes) names.push_back(size.name);
  names.emplace_back(kOwn);
  const std::string name = args.get_choice("size", "b0", names);
  if (name != kOwn) return *std::ranges::find(kSizes, name, &Size::name);
  Size size{.name = name, .layers = args.get_int("layers", 3, 1, 16), .stem = 0, .stem_out = 0, .stages = {}};
  auto numbers = [&](const char* key, size_t count, int64_t low, int64_t high) {
    std::vector<int64_t> values = args.get_ints(key, {}, low, high);
    if (values.size() != count)
      fail_input("{}.{}: {} numbers, expected {}", args.path(), key, values.size(), count);
    return values;
  };
  const auto stem = numbers("stem", 2, 2, kMaxChannels), hidden = numbers("hidden", 4, 1, kMaxChannels),
             channels = numbers("channels", 4, 2, kMaxChannels), blocks = numbers("blocks", 4, 1, kMaxBlocks);
  size.stem = stem[0];
  size.stem_out = stem[1];
  for (size_t s = 0; s < 4; ++s) size.stages[s] = {hidden[s], channels[s], blocks[s]};
  return size;
}

std::shared_ptr<Backbone> build_hgnet(const Args& args, const std::vector<int64_t>& default_outputs) {
  HgNetOptions options{.size = read_size(args)};
  options.affine = args.get_bool("lab", false);
  options.frozen_norm = args.get_bool("frozen_batch_norm");
  options.frozen_stages = args.get_int("frozen_stages");
  options.outputs = read_outputs(args, default_outputs, std::ssize(options.size.stages));
  args.finish("HGNetv2");
  return std::make_shared<HgNet>(options);
}

bool infer_hgnet(Inference& in, const std::string& prefix) {
  const std::string b = "model.backbone.arg.", stem = prefix + "stem.stem1.conv.weight";
  if (!in.has(stem) || !in.has(prefix + "stages.0.blocks.0.aggregation.0.conv.weight")) return false;
  Size found{.name = kOwn,
             .layers = in.count(prefix + "stages.0.blocks.0.layers.", ".conv.weight"),
             .stem = in.size(stem, 0),
             .stem_out = in.size(prefix + "stem.stem4.conv.weight", 0),
             .stages = {}};
  std::vector<int64_t> hidden, channels, blocks;
  for (size_t s = 0; s < found.stages.size(); ++s) {
    const std::string stage = fmt::format("{}stages.{}.blocks.", prefix, s);
    hidden.push_back(in.size(stage + (s < 2 ? "0.layers.0.conv.weight" : "0.layers.0.conv1.conv.weight"), 0));
    channels.push_back(in.size(stage + "0.aggregation.1.conv.weight", 0));
    blocks.push_back(in.count(stage, ".aggregation.0.conv.weight"));
    found.stages[s] = {hidden[s], channels[s], blocks[s]};
  }
  const auto same = [&](const Size& size) {
    return std::tie(size.layers, size.stem, size.stem_out, size.stages) ==
           std::tie(found.layers, found.stem, found.stem_out, found.stages);
  };
  const auto official = std::ranges::find_if(kSizes, same);
  in.set(b + "size", official == std::end(kSizes) ? found.name : official->name);
  if (official == std::end(kSizes)) {
    in.set(b + "layers", found.layers);
    in.set(b + "stem", std::vector<int64_t>{found.stem, found.stem_out});
    in.set(b + "hidden", hidden);
    in.set(b + "channels", channels);
    in.set(b + "blocks", blocks);
  }
  // D-FINE trains all of its small backbones, which have these steps,
  // and freezes stem and norms of the others.
  const bool small = in.has(prefix + "stem.stem1.lab.scale");
  in.set(b + "lab", small);
  in.set("model.backbone.frozen_batch_norm", !small);
  in.set("model.backbone.frozen_stages", small ? 0 : 1);
  return true;
}

SACCADE_REGISTER_BACKBONE(hgnet, build_hgnet, nullptr, infer_hgnet, true);

}  // namespace
}  // namespace saccade
