// AdamW (Loshchilov & Hutter 2019) in PyTorch's order:
//   m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
//   p = p * (1 - lr * decay) - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
#include "core/kernels/optimizer/update.h"

namespace saccade::kernels {
namespace {

struct AdamW {
  struct Rates {
    float keep;        // 1 - lr * decay
    float step_size;   // lr / (1 - beta1^t)
    float root_bias2;  // 1 / sqrt(1 - beta2^t)
  };
  float beta1, rest1, beta2, rest2, epsilon;  // rest = 1 - beta, rounded once

  explicit AdamW(const UpdateOptions& o)
      : beta1(static_cast<float>(o.beta1)),
        rest1(static_cast<float>(1 - o.beta1)),
        beta2(static_cast<float>(o.beta2)),
        rest2(static_cast<float>(1 - o.beta2)),
        epsilon(static_cast<float>(o.epsilon)) {}

  static std::vector<std::string> state_names(const UpdateOptions&) { return {"exp_avg", "exp_avg_sq"}; }
  static Rates rates(const OptimizerItem& item, const UpdateOptions& o) {
    auto t = static_cast<double>(item.step);
    return {static_cast<float>(1 - item.learning_rate * item.weight_decay),
            static_cast<float>(item.learning_rate / (1 - std::pow(o.beta1, t))),
            static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, t)))};
  }
  SACCADE_HD void operator()(const Rates& r, float g, float& p, float& m, float& v) const {
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    p = p * r.keep - r.step_size * (m / (sqrtf(v) * r.root_bias2 + epsilon));
  }
};

SACCADE_REGISTER_OPTIMIZER("adamw", AdamW);

}  // namespace
}  // namespace saccade::kernels
