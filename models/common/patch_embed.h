// Patch embedding of vision transformers: `proj` and, where wanted, `norm`.
#pragma once

#include "layers/conv2d.h"
#include "layers/norm.h"

namespace saccade {

class PatchEmbed : public Module {
 public:
  PatchEmbed(int64_t patch, int64_t dim, bool with_norm);  // patch: pixels on a side
  // Images [N, H, W, 3], filled up with zeros to whole patches -> [N, H / patch, W / patch, C]
  Var forward(const Var& images) const;
  std::string type_name() const override { return "PatchEmbed"; }

 private:
  int64_t patch_;
  std::shared_ptr<Conv2d> proj_;
  std::shared_ptr<LayerNorm> norm_;
};

// x [N, H, W, C] with zeros below and to the right, up to multiples of `multiple`.
Var pad_map(const Var& x, int64_t multiple);

}  // namespace saccade
