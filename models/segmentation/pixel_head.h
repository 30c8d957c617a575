// Heads of segmentation models: they classify the cells of a backbone's maps.
// Names are mmsegmentation's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "layers/conv2d.h"
#include "models/common/conv_norm.h"

namespace saccade {

struct PixelHeadOptions {
  int64_t classes = 0;
  int64_t channels = 256;  // of the classified map
  double dropout = 0.1;    // probability of dropping a channel of an image
};

class PixelHead : public Module {
 public:
  // maps [N, H_l, W_l, C_l], finest first -> logits [N, h, w, K]
  virtual Var forward(const Vars& maps) = 0;

 protected:
  explicit PixelHead(const PixelHeadOptions& options);
  // Applies the last layer, `conv_seg`, to x [N, h, w, channels].
  Var classify(const Var& x) const;
  // Makes `name`.conv and `name`.bn, with a ReLU
  std::shared_ptr<ConvNorm> conv(const std::string& name, int64_t in, int64_t out, int64_t kernel);

 private:
  double dropout_;
  Child<Conv2d> conv_seg_;
};

// A 3x3 convolution on one of the maps.
class FcnHead : public PixelHead {
 public:
  // in: channels of the maps; map: which of them
  FcnHead(const PixelHeadOptions& options, const std::vector<int64_t>& in, size_t map);
  Var forward(const Vars& maps) override;

 private:
  size_t map_;
  Child<ConvNorm> conv_;
};

// A head for a pyramid's maps, each half as fine as the one before: alternating convolutions and bilinear
// upsampling by two bring all to the size of the first, then they are added up (Kirillov et al. 2019,
// "Panoptic Feature Pyramid Networks", section 3.1).
class SemanticFpnHead : public PixelHead {
 public:
  SemanticFpnHead(const PixelHeadOptions& options, int64_t in, size_t maps);
  Var forward(const Vars& maps) override;

 private:
  std::vector<std::vector<Child<ConvNorm>>> scale_heads_;  // per map
};

// Averages over the parts of the last map (the pyramid pooling of PSPNet), followed by a feature pyramid
// whose maps are joined (Xiao et al. 2018, "Unified Perceptual Parsing for Scene Understanding").
class UperHead : public PixelHead {
 public:
  UperHead(const PixelHeadOptions& options, const std::vector<int64_t>& in, std::vector<int64_t> pool_sizes);
  Var forward(const Vars& maps) override;

 private:
  std::vector<int64_t> pool_sizes_;
  std::vector<Child<ConvNorm>> pooled_, lateral_, fpn_;
  Child<ConvNorm> bottleneck_, fpn_bottleneck_;
};

}  // namespace saccade
