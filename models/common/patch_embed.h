// Patch embedding of vision transformers and of their later stages: `proj` and, optionally, `norm`.
#pragma once

#include "autograd/ops.h"
#include "layers/constant_keeper.h"
#include "layers/conv2d.h"
#include "layers/norm.h"
#include "layers/resampling.h"

namespace saccade {

class PatchEmbed : public Module {
 public:
  // patch: its side in pixels or cells
  PatchEmbed(int64_t patch, int64_t dim, bool with_norm, int64_t in = 3) : patch_(patch) {
    proj_ = make_child<Conv2d>("proj", in, dim, patch, Conv2dOptions{.stride = patch});
    if (with_norm) norm_ = make_child<LayerNorm>("norm", dim);
  }
  // Images or a map [N, H, W, in], zero-padded to whole patches -> [N, H / patch, W / patch, C]
  Var forward(const Var& map) const {
    Var x = proj_(pad_map(map, patch_));
    return norm_ ? norm_(x) : x;
  }

 private:
  int64_t patch_;
  Child<Conv2d> proj_;
  Child<LayerNorm> norm_;
};

// positions [1, from.cells(), C], row by row -> [1, to.cells(), C], interpolated between the cells' centres
// and constant beyond the outermost ones. Returned unchanged if the grids are equal.
Var resized_positions(const Var& positions, const MapSize& from, const MapSize& to, Resampling resampling,
                      const ConstantKeeper& keeper);

}  // namespace saccade
