// A stack of linear layers with an activation between them (multi-layer perceptron, feed-forward network).
#pragma once

#include <optional>

#include "layers/linear.h"

namespace saccade {

struct MlpOptions {
  std::vector<std::string> names;  // of the layers; empty for layers.0, layers.1, ...
  Activation activation = Activation::kRelu;
  double dropout = 0;  // in training, after every layer; optional after the last one
  LinearOptions linear;
  std::optional<LinearOptions> last;  // of the last layer, if they differ
};

class Mlp : public Module {
 public:
  // channels: those of the input, of the outputs of the hidden layers, and of the output
  explicit Mlp(const std::vector<int64_t>& channels, const MlpOptions& options = {})
      : activation_(options.activation), dropout_(options.dropout) {
    SACCADE_CHECK(options.names.empty() || options.names.size() + 1 == channels.size(),
                  "[Mlp] {} names for {} layers", options.names.size(), channels.size() - 1);
    for (size_t i = 0; i + 1 < channels.size(); ++i) {
      bool is_last = i + 2 == channels.size();
      layers_.push_back(make_child<Linear>(
          options.names.empty() ? fmt::format("layers.{}", i) : options.names[i], channels[i],
          channels[i + 1], is_last && options.last ? *options.last : options.linear));
    }
  }
  Var forward(const Var& x, bool drop_output = true) const {
    Var y = x;
    for (const auto& layer : layers_) {
      const bool is_last = layer == layers_.back();
      y = is_last ? layer(y) : layer(y, activation_);
      if (!is_last || drop_output) y = dropout(y, dropout_, training());
    }
    return y;
  }
  std::string type_name() const override { return "MLP"; }

 private:
  Activation activation_;
  double dropout_;
  std::vector<Child<Linear>> layers_;
};

}  // namespace saccade
