// RF-DETR's masks: the products of what a query is with what the pixels are, which a block for each decoder
// layer refines. The names are the official ones.
#pragma once

#include "layers/conv2d.h"
#include "layers/mlp.h"
#include "layers/norm.h"

namespace saccade {

class QueryMaskHead : public Module {
 public:
  QueryMaskHead(int64_t dim, int64_t layers, int64_t stride);
  // map [N, h, w, C] of images [N, H, W, 3] -> [N, H / stride, W / stride, C], what the blocks begin with
  Var begin(const Var& map, const Var& images) const;
  Var refine(int64_t layer, const Var& pixels) const;  // the block of a decoder layer
  Var of_pixels(const Var& pixels) const;              // [N, h, w, C]: the factor of the pixels
  Var of_queries(const Var& queries) const;            // [N, Q, C]: that of the queries
  const Var& bias() const { return bias_; }

 private:
  class Block;
  class QueryBlock;
  int64_t stride_;
  std::vector<Child<Block>> blocks_;
  Child<Conv2d> spatial_features_proj_;
  Child<QueryBlock> query_features_block_;
  Child<Linear> query_features_proj_;
  Var bias_;
};

}  // namespace saccade
