#include "layers/linear.h"

#include "layers/module_scope.h"

namespace saccade {

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options) {
  weight_ = param("weight", {out, in}, options.weight_init ? options.weight_init : init::linear_default(in));
  if (options.bias)
    bias_ = param("bias", {out}, options.bias_init ? options.bias_init : init::linear_default(in));
}

Var Linear::forward(const Var& x, Activation activation) const {
  ModuleScope scope(*this);
  return linear(x, weight_, bias_, activation);
}

Mlp::Mlp(int64_t in, int64_t hidden, int64_t out, int64_t layers, const LinearOptions& last) {
  for (int64_t i = 0; i < layers; ++i) {
    bool is_last = i + 1 == layers;
    layers_.push_back(make_child<Linear>(fmt::format("layers.{}", i), i == 0 ? in : hidden,
                                         is_last ? out : hidden, is_last ? last : LinearOptions{}));
  }
}

Var Mlp::forward(const Var& x) const {
  ModuleScope scope(*this);
  Var y = x;
  for (size_t i = 0; i < layers_.size(); ++i)
    y = layers_[i]->forward(y, i + 1 < layers_.size() ? Activation::kRelu : Activation::kNone);
  return y;
}

}  // namespace saccade
