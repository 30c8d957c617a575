#include "models/rf_detr/mask_head.h"

#include <algorithm>

#include "layers/module_scope.h"

namespace saccade {
namespace {

constexpr double kBlockNormEps = 1e-6;
constexpr int64_t kQueryHidden = 4;  // times the channels

}  // namespace

// x + gelu(pwconv1(norm(dwconv(x))))
class QueryMaskHead::Block : public Module {
 public:
  explicit Block(int64_t dim) {
    dwconv_ = make_child<Conv2d>("dwconv", dim, dim, 3, Conv2dOptions{.padding = 1, .groups = dim});
    norm_ = make_child<LayerNorm>("norm", dim, kBlockNormEps);
    pwconv1_ = make_child<Linear>("pwconv1", dim, dim);
  }
  Var forward(const Var& x) const {
    ModuleScope scope(*this);
    return add(x, pwconv1_->forward(norm_->forward(dwconv_->forward(x)), Activation::kGelu));
  }
  std::string type_name() const override { return "MaskBlock"; }

 private:
  std::shared_ptr<Conv2d> dwconv_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> pwconv1_;
};

class QueryMaskHead::QueryBlock : public Module {
 public:
  explicit QueryBlock(int64_t dim) {
    norm_in_ = make_child<LayerNorm>("norm_in", dim);
    mlp_ = make_child<Mlp>("", std::vector{dim, kQueryHidden * dim, dim},
                           MlpOptions{.names = {"layers.0", "layers.2"}, .activation = Activation::kGelu});
  }
  Var forward(const Var& x) const {
    ModuleScope scope(*this);
    return add(x, mlp_->forward(norm_in_->forward(x)));
  }
  std::string type_name() const override { return "QueryBlock"; }

 private:
  std::shared_ptr<LayerNorm> norm_in_;
  std::shared_ptr<Mlp> mlp_;
};

QueryMaskHead::QueryMaskHead(int64_t dim, int64_t layers, int64_t stride) : stride_(stride) {
  for (int64_t i = 0; i < layers; ++i) blocks_.push_back(make_child<Block>(fmt::format("blocks.{}", i), dim));
  spatial_features_proj_ = make_child<Conv2d>("spatial_features_proj", dim, dim, 1);
  query_features_block_ = make_child<QueryBlock>("query_features_block", dim);
  query_features_proj_ = make_child<Linear>("query_features_proj", dim, dim);
  bias_ = param("bias", {1}, init::constant(0));
}

Var QueryMaskHead::begin(const Var& map, const Var& images) const {
  return resize_bilinear(map, std::max<int64_t>(1, images.dim(1) / stride_),
                         std::max<int64_t>(1, images.dim(2) / stride_));
}
Var QueryMaskHead::refine(int64_t layer, const Var& pixels) const {
  ModuleScope scope(*this);
  return blocks_[static_cast<size_t>(layer)]->forward(pixels);
}
Var QueryMaskHead::of_pixels(const Var& pixels) const {
  ModuleScope scope(*this);
  return spatial_features_proj_->forward(pixels);
}
Var QueryMaskHead::of_queries(const Var& queries) const {
  ModuleScope scope(*this);
  return query_features_proj_->forward(query_features_block_->forward(queries));
}

}  // namespace saccade
