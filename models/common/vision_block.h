// The pre-norm transformer block of vision transformers: x + attn(norm1(x)), then x + mlp(norm2(x)). In
// training, each branch is dropped as a whole for some samples (stochastic depth).
#pragma once

#include <array>

#include "layers/attention.h"
#include "layers/mlp.h"
#include "layers/norm.h"

namespace saccade {

// The parts of a block; the module that owns them names them.
struct PreNormBlock {
  Child<LayerNorm> norm1, norm2;
  Child<Attention> attn;
  Child<Mlp> mlp;
  bool wants_points = false;  // attn attends from points to tokens (deformable attention)
  double drop_path = 0;       // probability that a sample skips a branch
  Var scale1, scale2;         // [C], of the branches' channels (LayerScale); undefined if unused

  // tokens [N, S, C] -> [N, S, C]; map: the one map whose cells the tokens are, or empty if the tokens form
  // no map. Runs in the scope of the owner, which determines whether it trains and
  // whether activations are recomputed.
  Var forward(const Module& owner, const Var& tokens, const FeatureLevels& map) const;
};

// Returns whether the attention layer that a section names attends from points to tokens.
bool wants_points(const Args& section, const std::string& fallback);

struct VisionBlockOptions {
  AttentionShape shape;  // dim, heads
  double mlp_ratio = 4;
  double drop_path = 0;
  double norm_eps = 1e-5;
  // The initial scale of the branches' channels, in parameters of these names; 0 for no scale.
  double layer_scale = 0;
  std::array<const char*, 2> scale_names = {"ls1.gamma", "ls2.gamma"};
  // The attention layer's section of the configuration; if it names none, `fallback` with `defaults` is used.
  Args attention;
  std::string fallback;
  Args defaults;
};

// Swin's and ViT's block, with the official names `norm1`, `attn`, `norm2`, `mlp.fc1`, `mlp.fc2`.
class VisionBlock : public Module {
 public:
  explicit VisionBlock(const VisionBlockOptions& options);
  Var forward(const Var& tokens, const FeatureLevels& map) const;  // as PreNormBlock
  bool supports_recompute() const override { return true; }

 private:
  PreNormBlock block_;
};

// The options of linear layers in timm's vision transformers: weights truncated normal 0.02, biases 0.
LinearOptions vision_linear(bool bias = true);

}  // namespace saccade
