// RF-DETR's mask head: the masks are the products of query features and pixel features, which one block per
// decoder layer refines. The names are the official ones.
#pragma once

#include <algorithm>

#include "layers/conv2d.h"
#include "layers/mlp.h"
#include "layers/norm.h"

namespace saccade {

class QueryMaskHead : public Module {
 public:
  QueryMaskHead(int64_t dim, int64_t layers, int64_t stride) : stride_(stride) {
    for (int64_t i = 0; i < layers; ++i)
      blocks_.push_back(make_child<Block>(fmt::format("blocks.{}", i), dim));
    spatial_features_proj_ = make_child<Conv2d>("spatial_features_proj", dim, dim, 1);
    query_features_block_ = make_child<QueryBlock>("query_features_block", dim);
    query_features_proj_ = make_child<Linear>("query_features_proj", dim, dim);
    bias_ = param("bias", {1}, init::constant(0));
  }
  // map [N, h, w, C] of images [N, H, W, 3] -> [N, H / stride, W / stride, C], the input of the blocks
  Var begin(const Var& map, const Var& images) const {
    return resize_bilinear(map, std::max<int64_t>(1, images.dim(1) / stride_),
                           std::max<int64_t>(1, images.dim(2) / stride_));
  }
  // Applies the block of a decoder layer.
  Var refine(int64_t layer, const Var& pixels) const { return blocks_[static_cast<size_t>(layer)](pixels); }
  // [N, h, w, C]: the pixels' factor
  Var of_pixels(const Var& pixels) const { return spatial_features_proj_(pixels); }
  // [N, Q, C]: the queries' factor
  Var of_queries(const Var& queries) const { return query_features_proj_(query_features_block_(queries)); }
  const Var& bias() const { return bias_; }

 private:
  // x + gelu(pwconv1(norm(dwconv(x))))
  class Block : public Module {
   public:
    explicit Block(int64_t dim) {
      dwconv_ = make_child<Conv2d>("dwconv", dim, dim, 3, Conv2dOptions{.padding = 1, .groups = dim});
      norm_ = make_child<LayerNorm>("norm", dim, 1e-6);
      pwconv1_ = make_child<Linear>("pwconv1", dim, dim);
    }
    Var forward(const Var& x) const { return add(x, pwconv1_(norm_(dwconv_(x)), Activation::kGelu)); }
    std::string type_name() const override { return "MaskBlock"; }

   private:
    Child<Conv2d> dwconv_;
    Child<LayerNorm> norm_;
    Child<Linear> pwconv1_;
  };
  class QueryBlock : public Module {
   public:
    explicit QueryBlock(int64_t dim) {
      norm_in_ = make_child<LayerNorm>("norm_in", dim);
      mlp_ = make_child<Mlp>("", std::vector{dim, 4 * dim, dim},
                             MlpOptions{.names = {"layers.0", "layers.2"}, .activation = Activation::kGelu});
    }
    Var forward(const Var& x) const { return add(x, mlp_(norm_in_(x))); }

   private:
    Child<LayerNorm> norm_in_;
    Child<Mlp> mlp_;
  };

  int64_t stride_;
  std::vector<Child<Block>> blocks_;
  Child<Conv2d> spatial_features_proj_;
  Child<QueryBlock> query_features_block_;
  Child<Linear> query_features_proj_;
  Var bias_;
};

}  // namespace saccade
