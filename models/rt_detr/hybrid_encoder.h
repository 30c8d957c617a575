// RT-DETR's encoder (Zhao et al. 2024, section 4.2): attention within the coarsest map (AIFI), then a
// top-down and a bottom-up path of convolutions (CCFM), whose blocks are CSP layers of RepVGG blocks.
// D-FINE's (Peng et al. 2024) has blocks with more branches and downsamples with depthwise convolutions.
#pragma once

#include "layers/constant_keeper.h"
#include "models/common/conv_norm.h"
#include "models/common/transformer.h"
#include "models/detector.h"

namespace saccade {

struct HybridEncoderOptions {
  int64_t dim = 256;
  double expansion = 1;              // hidden channels of the CSP layers as a fraction of dim
  bool transposed_position = false;  // see hybrid_position_encoding()
  int64_t elan_blocks = 0;           // for D-FINE: RepVGG blocks per CSP layer; 0 for RT-DETR's blocks
  TransformerOptions attention;      // of AIFI; its dim is the one above
};
// Reads a section hybrid_encoder, for a decoder with these options.
HybridEncoderOptions read_hybrid_encoder(const Args& section, const TransformerOptions& decoder);

// [1, H * W, C]: a quarter of the channels each for the sine and the cosine of y and of x, over 10000^(i / (C
// / 4)). transposed: as in the official code, which takes cell t for (t / H, t % H) although a map's cells
// are (t / W, t % W); both are the same for square maps.
Tensor hybrid_position_encoding(MapSize map, int64_t channels, bool transposed, Device device);

// silu(norm(3x3 x) + norm(1x1 x)); a single convolution in evaluation (Ding et al. 2021).
class RepVggBlock : public Module {
 public:
  explicit RepVggBlock(int64_t channels) {
    conv1_ = make_child<ConvNorm>("conv1", channels, channels, ConvNormOptions{.kernel = 3});
    conv2_ = make_child<ConvNorm>("conv2", channels, channels);
  }
  Var forward(const Var& x) {
    if (!runs_folded(*this)) {
      cache_.clear();
      return silu(add(conv1_(x), conv2_(x)));
    }
    std::vector<Var> sources = conv1_->sources(), others = conv2_->sources();
    sources.insert(sources.end(), others.begin(), others.end());
    const FoldedConv conv = cache_.get(sources, [&] { return folded(); });
    return conv2d(x, conv.weight, conv.bias, {.padding = 1}, Activation::kSilu);
  }
  std::string type_name() const override { return "RepVgg"; }

 private:
  FoldedConv folded() const {
    FoldedConv three = conv1_->folded(), one = conv2_->folded();
    Tensor centre = three.weight.value().slice(2, 1, 2).slice(3, 1, 2);
    centre.copy_from(add(Var(centre), one.weight).value());
    return {three.weight, add(three.bias, one.bias)};
  }

  Child<ConvNorm> conv1_, conv2_;
  FoldedConvCache cache_;
};

// Returns expansion * dim, rounded down, but 120 / 176 of 176 is 120.
int64_t csp_channels(int64_t dim, double expansion);

// The block applied after two maps are joined.
class FusionBlock : public Module {
 public:
  virtual Var forward(const Var& x) = 0;
};

// Two 1x1 convolutions of the same input, the first followed by RepVGG blocks, and their sum.
class CspRepLayer : public FusionBlock {
 public:
  CspRepLayer(int64_t in, int64_t out, int64_t hidden, int64_t blocks) {
    const ConvNormOptions silu{.activation = Activation::kSilu};
    conv1_ = make_child<ConvNorm>("conv1", in, hidden, silu);
    conv2_ = make_child<ConvNorm>("conv2", in, hidden, silu);
    for (int64_t j = 0; j < blocks; ++j)
      bottlenecks_.push_back(make_child<RepVggBlock>(fmt::format("bottlenecks.{}", j), hidden));
    if (hidden != out) conv3_ = make_child<ConvNorm>("conv3", hidden, out, silu);
  }
  Var forward(const Var& x) override {
    Var y = conv1_(x);
    for (auto& block : bottlenecks_) y = block(y);
    y = add(y, conv2_(x));
    return conv3_ ? conv3_(y) : y;
  }
  std::string type_name() const override { return "CSPRep"; }

 private:
  Child<ConvNorm> conv1_, conv2_, conv3_;  // conv3_: if the hidden channels differ from `out`
  std::vector<Child<RepVggBlock>> bottlenecks_;
};

class HybridEncoder : public Module {
 public:
  // channels: of the backbone's maps, finest first
  HybridEncoder(const std::vector<int64_t>& channels, const HybridEncoderOptions& options);
  // Returns as many maps, with `dim` channels.
  std::vector<Var> forward(const std::vector<Var>& features, const DetectorInput& input);

 private:
  Var attend(const Var& map, const DetectorInput& input);
  std::shared_ptr<FusionBlock> make_fusion() const;

  HybridEncoderOptions options_;
  std::vector<Child<ConvNorm>> input_proj_, lateral_convs_;
  std::vector<std::vector<Child<ConvNorm>>> downsample_convs_;
  Child<TransformerEncoder> encoder_;
  std::vector<Child<FusionBlock>> fpn_blocks_, pan_blocks_;
  ConstantKeeper constants_;
};

}  // namespace saccade
