// y = act(x W^T + b), x [..., in] -> [..., out]. Names `weight` [out, in] and `bias` [out].
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
  Linear(int64_t in, int64_t out, const LinearOptions& options = {});
  Var forward(const Var& x, Activation activation = Activation::kNone,
              ProductDtype dtype = ProductDtype::kCompute) const;
  const Var& weight() const { return weight_; }
  const Var& bias() const { return bias_; }

 private:
  Var weight_;  // [out, in]
  Var bias_;    // [out] or undefined
};

}  // namespace saccade
