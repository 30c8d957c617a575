#include "layers/mlp.h"

#include "layers/module_scope.h"

namespace saccade {

Mlp::Mlp(const std::vector<int64_t>& channels, const MlpOptions& options)
    : activation_(options.activation), dropout_(options.dropout) {
  SACCADE_CHECK(options.names.empty() || options.names.size() + 1 == channels.size(),
                "[Mlp] {} names for {} layers", options.names.size(), channels.size() - 1);
  for (size_t i = 0; i + 1 < channels.size(); ++i) {
    bool is_last = i + 2 == channels.size();
    layers_.push_back(make_child<Linear>(
        options.names.empty() ? fmt::format("layers.{}", i) : options.names[i], channels[i], channels[i + 1],
        is_last && options.last ? *options.last : options.linear));
  }
}

Var Mlp::forward(const Var& x) const {
  return dropout(forward_without_last_dropout(x), dropout_, training());
}

Var Mlp::forward_without_last_dropout(const Var& x) const {
  ModuleScope scope(*this);
  Var y = x;
  for (const auto& layer : layers_) {
    if (layer == layers_.back()) return layer->forward(y);
    y = dropout(layer->forward(y, activation_), dropout_, training());
  }
  return y;
}

}  // namespace saccade
