// Patch embedding of vision transformers and of their later stages: `proj` and, where wanted, `norm`.
#pragma once

#include "autograd/ops.h"
#include "layers/constant_keeper.h"
#include "layers/conv2d.h"
#include "layers/norm.h"
#include "layers/resampling.h"

namespace saccade {

class PatchEmbed : public Module {
 public:
  PatchEmbed(int64_t patch, int64_t dim, bool with_norm, int64_t in = 3);  // patch: pixels or cells on a side
  // Images or a map [N, H, W, in], filled up with zeros to whole patches -> [N, H / patch, W / patch, C]
  Var forward(const Var& map) const;

 private:
  int64_t patch_;
  Child<Conv2d> proj_;
  Child<LayerNorm> norm_;
};

// positions [1, from.cells(), C], row by row -> [1, to.cells(), C], interpolated between the cells' centres;
// those of the edges hold outside. As they are where the grids are equal.
Var resized_positions(const Var& positions, const MapSize& from, const MapSize& to, Resampling resampling,
                      const ConstantKeeper& keeper);

}  // namespace saccade
