// A stack of linear layers with an activation between them (multi-layer perceptron, feed-forward network).
#pragma once

#include <optional>

#include "layers/linear.h"

namespace saccade {

struct MlpOptions {
  std::vector<std::string> names;  // of the layers; empty: layers.0, layers.1, ...
  Activation activation = Activation::kRelu;
  double dropout = 0;  // after every layer, while training; the last one's can be left out
  LinearOptions linear;
  std::optional<LinearOptions> last;  // of the last layer, where it differs
};

class Mlp : public Module {
 public:
  // channels: of the input, of the outputs of the layers but the last, of the output
  explicit Mlp(const std::vector<int64_t>& channels, const MlpOptions& options = {});
  Var forward(const Var& x, bool drop_output = true) const;
  std::string type_name() const override { return "MLP"; }

 private:
  Activation activation_;
  double dropout_;
  std::vector<Child<Linear>> layers_;
};

}  // namespace saccade
