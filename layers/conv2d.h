// Convolution on [N, H, W, C], with `weight` [out, in / groups, R, S] (PyTorch's layout) and `bias` [out].
#pragma once

#include "autograd/ops.h"
#include "layers/module.h"

namespace saccade {

struct Conv2dInit {
  bool bias = true;
  Initializer weight;  // empty: PyTorch's default
  Initializer bias_values;
};

class Conv2d : public Module {
 public:
  Conv2d(int64_t in, int64_t out, int64_t kernel, const Conv2dOptions& options = {},
         const Conv2dInit& init = {}, bool trainable = true);
  Var forward(const Var& x, Activation activation = Activation::kNone) const;
  // See conv2d_levels; for layers that keep the sizes of maps.
  Var forward(const Var& rows, const FeatureLevels& levels, Activation activation = Activation::kNone) const;
  const Conv2dOptions& options() const { return options_; }
  const Var& weight() const { return weight_; }

 private:
  Conv2dOptions options_;
  Var weight_, bias_;
};

// Pads x [N, H, W, C] with zeros at the bottom and right, up to `size`, which is no smaller, or to multiples
// of `multiple`.
Var fill_map(const Var& x, const MapSize& size);
Var pad_map(const Var& x, int64_t multiple);

// A transposed convolution with adjacent windows, on [N, H, W, C], with `weight` [in, out, stride, stride]
// (PyTorch's layout) and `bias` [out].
class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(int64_t in, int64_t out, int64_t stride, Initializer weight, Initializer bias)
      : stride_(stride),
        weight_(param("weight", {in, out, stride, stride}, std::move(weight))),
        bias_(param("bias", {out}, std::move(bias))) {}
  Var forward(const Var& x, Activation activation = Activation::kNone) const {
    return conv_transpose2d(x, weight_, bias_, stride_, activation);
  }

 private:
  int64_t stride_;
  Var weight_, bias_;
};

}  // namespace saccade
