#include "layers/conv2d.h"

#include "core/tensor/integers.h"

namespace saccade {

Conv2d::Conv2d(int64_t in, int64_t out, int64_t kernel, const Conv2dOptions& options, const Conv2dInit& init,
               bool trainable)
    : options_(options) {
  int64_t fan_in = in / options.groups * kernel * kernel;
  weight_ = param("weight", {out, in / options.groups, kernel, kernel},
                  init.weight ? init.weight : init::linear_default(fan_in), trainable);
  if (init.bias)
    bias_ =
        param("bias", {out}, init.bias_values ? init.bias_values : init::linear_default(fan_in), trainable);
}

Var Conv2d::forward(const Var& x, Activation activation) const {
  return conv2d(x, weight_, bias_, options_, activation);
}

Var Conv2d::forward(const Var& rows, const FeatureLevels& levels, Activation activation) const {
  const Conv2dOptions& o = options_;
  SACCADE_CHECK(o.stride == 1 && o.dilation == 1 && o.groups == 1 && 2 * o.padding + 1 == weight_.dim(2),
                "[conv2d_levels] got a layer that changes the size of its maps, or has dilation or groups");
  return conv2d_levels(rows, levels, weight_, bias_, activation);
}

Var fill_map(const Var& x, const MapSize& size) {
  Var y = x;
  for (int axis : {1, 2}) {
    const int64_t missing = (axis == 1 ? size.height : size.width) - y.dim(axis);
    if (missing == 0) continue;
    Shape zeros = y.shape();
    zeros[axis] = missing;
    y = concat({y, Var(Tensor::zeros(zeros, y.value().dtype(), y.value().device()))}, axis);
  }
  return y;
}

Var pad_map(const Var& x, int64_t multiple) {
  return fill_map(x, {round_up(x.dim(1), multiple), round_up(x.dim(2), multiple)});
}

}  // namespace saccade
