#include "layers/linear.h"

namespace saccade {

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options) {
  weight_ = param("weight", {out, in}, options.weight_init ? options.weight_init : init::linear_default(in));
  if (options.bias)
    bias_ = param("bias", {out}, options.bias_init ? options.bias_init : init::linear_default(in));
}

Var Linear::forward(const Var& x, Activation activation, ProductDtype dtype) const {
  return linear(x, weight_, bias_, activation, dtype);
}

}  // namespace saccade
