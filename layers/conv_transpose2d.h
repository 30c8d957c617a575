// A transposed convolution whose windows touch, on [N, H, W, C]. Names `weight` [in, out, stride, stride]
// (PyTorch's layout) and `bias` [out].
#pragma once

#include "autograd/ops.h"
#include "layers/module.h"

namespace saccade {

class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(int64_t in, int64_t out, int64_t stride, Initializer weight, Initializer bias);
  Var forward(const Var& x, Activation activation = Activation::kNone) const;
  std::string type_name() const override { return "ConvTranspose2d"; }

 private:
  int64_t stride_;
  Var weight_, bias_;
};

}  // namespace saccade
