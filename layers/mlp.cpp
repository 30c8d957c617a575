#include "layers/mlp.h"

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

Var Mlp::forward(const Var& x, bool drop_output) const {
  Var y = x;
  for (const auto& layer : layers_) {
    const bool is_last = layer == layers_.back();
    y = is_last ? layer(y) : layer(y, activation_);
    if (!is_last || drop_output) y = dropout(y, dropout_, training());
  }
  return y;
}

}  // namespace saccade
