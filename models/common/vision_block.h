// The pre-norm transformer block that Swin and ViT share: x + attn(norm1(x)), then x + mlp(norm2(x)), each
// branch dropped as a whole for some samples while training (stochastic depth). Official names `norm1`,
// `attn`, `norm2`, `mlp.fc1`, `mlp.fc2`.
#pragma once

#include "layers/attention.h"
#include "layers/linear.h"
#include "layers/norm.h"

namespace saccade {

struct VisionBlockOptions {
  AttentionShape shape;  // dim, heads
  double mlp_ratio = 4;
  double drop_path = 0;  // probability that a sample skips a branch
  double norm_eps = 1e-5;
  // The attention layer's section of the configuration; where it names none, `fallback` with `defaults`.
  Args attention;
  std::string fallback;
  Args defaults;
};

class VisionBlock : public Module {
 public:
  explicit VisionBlock(const VisionBlockOptions& options);
  // tokens [N, S, C] -> [N, S, C]; map: the one map whose cells the tokens are, or empty where they are no map.
  Var forward(const Var& tokens, const FeatureLevels& map);
  std::string type_name() const override { return "VisionBlock"; }
  bool supports_recompute() const override { return true; }

 private:
  class FeedForward;
  Var run(const Var& tokens, const FeatureLevels& map) const;
  Var attend(const Var& x, const FeatureLevels& map) const;

  double drop_path_;
  bool wants_points_;  // the layer attends from points to tokens (deformable attention)
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<Attention> attn_;
  std::shared_ptr<FeedForward> mlp_;
};

// The drop probabilities of `count` blocks: 0 for the first, rising in equal steps to `rate` for the last.
std::vector<double> drop_path_rates(int64_t count, double rate);
// Linear layers as in timm's vision transformers: weights truncated normal 0.02, biases 0.
LinearOptions vision_linear(bool bias = true);
// x [N, H, W, C] with zeros below and to the right, up to multiples of `multiple`.
Var pad_map(const Var& x, int64_t multiple);

}  // namespace saccade
