// y = act(x W^T + b), x [..., in] -> [..., out], with `weight` [out, in] and `bias` [out].
#pragma once

#include "autograd/ops.h"
#include "layers/module.h"

namespace saccade {

struct LinearOptions {
  bool bias = true;
  Initializer weight_init;  // empty: PyTorch's default
  Initializer bias_init;    // empty: PyTorch's default
};

class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, const LinearOptions& options = {}) {
    weight_ =
        param("weight", {out, in}, options.weight_init ? options.weight_init : init::linear_default(in));
    if (options.bias)
      bias_ = param("bias", {out}, options.bias_init ? options.bias_init : init::linear_default(in));
  }
  Var forward(const Var& x, Activation activation = Activation::kNone,
              ProductDtype dtype = ProductDtype::kCompute) const {
    return linear(x, weight_, bias_, activation, dtype);
  }
  const Var& weight() const { return weight_; }
  const Var& bias() const { return bias_; }

 private:
  Var weight_;  // [out, in]
  Var bias_;    // [out] or undefined
};

}  // namespace saccade
