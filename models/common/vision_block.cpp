#include "models/common/vision_block.h"

#include "autograd/engine.h"
#include "layers/cell_centres.h"
#include "layers/module_scope.h"

namespace saccade {

class VisionBlock::FeedForward : public Module {
 public:
  FeedForward(int64_t dim, int64_t hidden) {
    fc1_ = make_child<Linear>("fc1", dim, hidden, vision_linear());
    fc2_ = make_child<Linear>("fc2", hidden, dim, vision_linear());
  }
  Var forward(const Var& x) const {
    ModuleScope scope(*this);
    return fc2_->forward(fc1_->forward(x, Activation::kGelu));
  }
  std::string type_name() const override { return "FeedForward"; }

 private:
  std::shared_ptr<Linear> fc1_, fc2_;
};

VisionBlock::VisionBlock(const VisionBlockOptions& o) : drop_path_(o.drop_path) {
  bool own = !o.attention.has("type");
  std::string name = o.attention.get_string("type", o.fallback);
  wants_points_ = attention_layers().find(name).inputs == AttentionInputs::kQueriesAndTokens;
  norm1_ = make_child<LayerNorm>("norm1", o.shape.dim, o.norm_eps);
  attn_ = child("attn", make_attention(own ? o.defaults : o.attention, o.fallback, o.shape));
  norm2_ = make_child<LayerNorm>("norm2", o.shape.dim, o.norm_eps);
  auto hidden = static_cast<int64_t>(static_cast<double>(o.shape.dim) * o.mlp_ratio);
  mlp_ = make_child<FeedForward>("mlp", o.shape.dim, hidden);
}

Var VisionBlock::forward(const Var& tokens, const FeatureLevels& map) {
  if (!recompute()) return run(tokens, map);
  return recomputed([this, map](const Vars& in) { return run(in[0], map); }, {tokens});
}

Var VisionBlock::run(const Var& tokens, const FeatureLevels& map) const {
  ModuleScope scope(*this);
  Var x = add(tokens, drop_path(attend(norm1_->forward(tokens), map), drop_path_, training()));
  return add(x, drop_path(mlp_->forward(norm2_->forward(x)), drop_path_, training()));
}

Var VisionBlock::attend(const Var& x, const FeatureLevels& map) const {
  AttentionInput input{.query = x, .key = x, .value = x, .levels = map};
  if (wants_points_ && map.size() == 1) input.reference_points = reference_points(x, map[0]);
  return attn_->forward(input);
}

std::vector<double> drop_path_rates(int64_t count, double rate) {
  std::vector<double> rates(static_cast<size_t>(count), 0.0);
  for (size_t i = 1; i < rates.size(); ++i)
    rates[i] = rate * static_cast<double>(i) / static_cast<double>(rates.size() - 1);
  return rates;
}

LinearOptions vision_linear(bool bias) {
  return {.bias = bias, .weight_init = init::truncated_normal(0.02), .bias_init = init::constant(0)};
}

Var pad_map(const Var& x, int64_t multiple) {
  Var y = x;
  for (int axis : {1, 2}) {
    int64_t missing = (multiple - y.dim(axis) % multiple) % multiple;
    if (missing == 0) continue;
    Shape zeros = y.shape();
    zeros[axis] = missing;
    y = concat({y, Var(Tensor::zeros(zeros, y.value().dtype(), y.value().device()))}, axis);
  }
  return y;
}

}  // namespace saccade
