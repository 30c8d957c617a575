#include "models/common/patch_embed.h"

namespace saccade {

PatchEmbed::PatchEmbed(int64_t patch, int64_t dim, bool with_norm, int64_t in) : patch_(patch) {
  proj_ = make_child<Conv2d>("proj", in, dim, patch, Conv2dOptions{.stride = patch});
  if (with_norm) norm_ = make_child<LayerNorm>("norm", dim);
}

Var PatchEmbed::forward(const Var& map) const {
  Var x = proj_(pad_map(map, patch_));
  return norm_ ? norm_(x) : x;
}

}  // namespace saccade
