// Patch embedding of vision transformers and of their later stages: `proj` and, where wanted, `norm`.
#pragma once

#include "layers/conv2d.h"
#include "layers/norm.h"

namespace saccade {

class PatchEmbed : public Module {
 public:
  PatchEmbed(int64_t patch, int64_t dim, bool with_norm, int64_t in = 3);  // patch: pixels or cells on a side
  // Images or a map [N, H, W, in], filled up with zeros to whole patches -> [N, H / patch, W / patch, C]
  Var forward(const Var& map) const;
  std::string type_name() const override { return "PatchEmbed"; }

 private:
  int64_t patch_;
  Child<Conv2d> proj_;
  Child<LayerNorm> norm_;
};

}  // namespace saccade
