#include "models/common/patch_embed.h"

#include "layers/module_scope.h"

namespace saccade {

PatchEmbed::PatchEmbed(int64_t patch, int64_t dim, bool with_norm) : patch_(patch) {
  proj_ = make_child<Conv2d>("proj", 3, dim, patch, Conv2dOptions{.stride = patch});
  if (with_norm) norm_ = make_child<LayerNorm>("norm", dim);
}

Var PatchEmbed::forward(const Var& images) const {
  ModuleScope scope(*this);
  Var x = proj_->forward(pad_map(images, patch_));
  return norm_ ? norm_->forward(x) : x;
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
