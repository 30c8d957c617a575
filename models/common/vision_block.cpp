#include "models/common/vision_block.h"

#include "autograd/engine.h"
#include "layers/position_encoding.h"

namespace saccade {

Var PreNormBlock::forward(const Module& owner, const Var& tokens, const FeatureLevels& map) const {
  auto run = [this, &owner, map](const Vars& in) {
    Var x = norm1(in[0]);
    AttentionInput input{.query = x, .key = x, .value = x, .levels = map};
    if (wants_points && map.size() == 1) input.reference_points = reference_points(x, map[0]);
    auto branch = [&](const Var& y, const Var& scale) {
      return saccade::drop_path(scale.defined() ? mul(y, cast(scale, y.dtype())) : y, drop_path,
                                owner.training());
    };
    x = add(in[0], branch(attn(input), scale1));
    return add(x, branch(mlp(norm2(x)), scale2));
  };
  return owner.recompute() ? recomputed(run, {tokens}) : run({tokens});
}

bool wants_points(const Args& section, const std::string& fallback) {
  return attention_spec(section, fallback).inputs != AttentionInputs::kOneMap;
}

VisionBlock::VisionBlock(const VisionBlockOptions& o) {
  bool has_own = o.attention.has("type");
  block_.wants_points = wants_points(o.attention, o.fallback);
  block_.drop_path = o.drop_path;
  block_.norm1 = make_child<LayerNorm>("norm1", o.shape.dim, o.norm_eps);
  block_.attn = child("attn", make_attention(has_own ? o.attention : o.defaults, o.fallback, o.shape));
  auto scale = [&](size_t i) {
    return o.layer_scale == 0 ? Var() : param(o.scale_names[i], {o.shape.dim}, init::constant(o.layer_scale));
  };
  block_.scale1 = scale(0);
  block_.scale2 = scale(1);
  block_.norm2 = make_child<LayerNorm>("norm2", o.shape.dim, o.norm_eps);
  auto hidden = static_cast<int64_t>(static_cast<double>(o.shape.dim) * o.mlp_ratio);
  block_.mlp = make_child<Mlp>(
      "mlp", std::vector{o.shape.dim, hidden, o.shape.dim},
      MlpOptions{.names = {"fc1", "fc2"}, .activation = Activation::kGelu, .linear = vision_linear()});
}

Var VisionBlock::forward(const Var& tokens, const FeatureLevels& map) const {
  return block_.forward(*this, tokens, map);
}

LinearOptions vision_linear(bool bias) {
  return {.bias = bias, .weight_init = init::truncated_normal(0.02), .bias_init = init::constant(0)};
}

}  // namespace saccade
