// SGD as in PyTorch: d = g + decay * p;  m = momentum * m + d (m = d in the first step);  p -= lr * m.
// Without momentum there is no m, and p -= lr * d.
#include "core/kernels/optimizer/update.h"

namespace saccade::kernels {
namespace {

struct Sgd {
  struct Rates {
    float learning_rate, weight_decay, momentum;  // momentum is 0 in the first step
  };

  explicit Sgd(const UpdateOptions&) {}

  static std::vector<std::string> state_names(const UpdateOptions& o) {
    return o.momentum > 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
  }
  static Rates rates(const OptimizerItem& item, const UpdateOptions& o) {
    return {static_cast<float>(item.learning_rate), static_cast<float>(item.weight_decay),
            item.step == 1 ? 0.0f : static_cast<float>(o.momentum)};
  }
  SACCADE_HD void operator()(const Rates& r, float g, float& p) const {
    p -= r.learning_rate * (g + r.weight_decay * p);
  }
  SACCADE_HD void operator()(const Rates& r, float g, float& p, float& m) const {
    m = r.momentum * m + (g + r.weight_decay * p);
    p -= r.learning_rate * m;
  }
};

SACCADE_REGISTER_OPTIMIZER("sgd", Sgd);

}  // namespace
}  // namespace saccade::kernels
