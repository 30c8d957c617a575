#include "models/segmentation/pixel_head.h"

#include <fmt/format.h>

#include <algorithm>

namespace saccade {
namespace {

constexpr double kClassDeviation = 0.01;  // of the initial weights of the last layer

// Drops whole channels, chosen for each image separately.
Var drop_channels(const Var& x, double p, bool training) {
  if (!training || p == 0) return x;
  const Var all(Tensor::full({x.dim(0), 1, 1, x.dim(3)}, 1, x.dtype(), x.device()));
  return mul(x, dropout(all, p, training));
}

Var resize_like(const Var& x, const Var& like) { return resize_bilinear(x, like.dim(1), like.dim(2)); }

}  // namespace

PixelHead::PixelHead(const PixelHeadOptions& options) : dropout_(options.dropout) {
  conv_seg_ = make_child<Conv2d>(
      "conv_seg", options.channels, options.classes, 1, Conv2dOptions{},
      Conv2dInit{.weight = init::normal(0, kClassDeviation), .bias_values = init::constant(0)});
}

Var PixelHead::classify(const Var& x) const { return conv_seg_(drop_channels(x, dropout_, training())); }

std::shared_ptr<ConvNorm> PixelHead::conv(const std::string& name, int64_t in, int64_t out, int64_t kernel) {
  return make_child<ConvNorm>(name, in, out,
                              ConvNormOptions{.kernel = kernel,
                                              .activation = Activation::kRelu,
                                              .weight_init = init::kaiming_normal_fan_out(),
                                              .norm_name = "bn"});
}

FcnHead::FcnHead(const PixelHeadOptions& options, const std::vector<int64_t>& in, size_t map)
    : PixelHead(options), map_(map) {
  conv_ = conv("convs.0", in.at(map), options.channels, 3);
}

Var FcnHead::forward(const Vars& maps) { return classify(conv_(maps[map_])); }

SemanticFpnHead::SemanticFpnHead(const PixelHeadOptions& options, int64_t in, size_t maps)
    : PixelHead(options), scale_heads_(maps) {
  // The upsampling layers have numbers but no weights.
  for (size_t l = 0; l < maps; ++l)
    for (size_t k = 0; k < std::max<size_t>(l, 1); ++k)
      scale_heads_[l].push_back(conv(fmt::format("scale_heads.{}.{}", l, 2 * k),
                                     k == 0 ? in : options.channels, options.channels, 3));
}

Var SemanticFpnHead::forward(const Vars& maps) {
  SACCADE_CHECK(maps.size() == scale_heads_.size(), "[semantic_fpn] {} maps, expected {}", maps.size(),
                scale_heads_.size());
  Var sum;
  for (size_t l = 0; l < maps.size(); ++l) {
    Var x = maps[l];
    for (const auto& conv : scale_heads_[l]) {
      x = conv(x);
      if (l > 0) x = resize_bilinear(x, 2 * x.dim(1), 2 * x.dim(2));
    }
    sum = l == 0 ? x : add(sum, resize_like(x, sum));
  }
  return classify(sum);
}

UperHead::UperHead(const PixelHeadOptions& options, const std::vector<int64_t>& in,
                   std::vector<int64_t> pool_sizes)
    : PixelHead(options), pool_sizes_(std::move(pool_sizes)) {
  const int64_t C = options.channels, last = in.back();
  for (size_t i = 0; i < pool_sizes_.size(); ++i)
    pooled_.push_back(conv(fmt::format("psp_modules.{}.1", i), last, C, 1));
  bottleneck_ = conv("bottleneck", last + std::ssize(pool_sizes_) * C, C, 3);
  for (size_t l = 0; l + 1 < in.size(); ++l) {
    lateral_.push_back(conv(fmt::format("lateral_convs.{}", l), in[l], C, 1));
    fpn_.push_back(conv(fmt::format("fpn_convs.{}", l), C, C, 3));
  }
  fpn_bottleneck_ = conv("fpn_bottleneck", std::ssize(in) * C, C, 3);
}

Var UperHead::forward(const Vars& maps) {
  SACCADE_CHECK(maps.size() == lateral_.size() + 1, "[uper_net] {} maps, expected {}", maps.size(),
                lateral_.size() + 1);
  Vars context{maps.back()};
  for (size_t i = 0; i < pooled_.size(); ++i)
    context.push_back(resize_like(
        pooled_[i](adaptive_avg_pool2d(maps.back(), pool_sizes_[i], pool_sizes_[i])), maps.back()));
  Vars levels(maps.size());
  levels.back() = bottleneck_(concat(context, 3));
  for (size_t l = lateral_.size(); l-- > 0;) {
    const Var lateral = lateral_[l](maps[l]);
    levels[l] = add(lateral, resize_like(levels[l + 1], lateral));
  }
  for (size_t l = 0; l < fpn_.size(); ++l) levels[l] = fpn_[l](levels[l]);
  for (Var& level : levels) level = resize_like(level, levels[0]);
  return classify(fpn_bottleneck_(concat(levels, 3)));
}

}  // namespace saccade
