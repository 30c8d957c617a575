// Moving averages outside an optimizer's update, as an update in which the average is the parameter, the
// value the gradient and the weight the learning rate (ema_update).
#include "core/kernels/optimizer/update.h"

namespace saccade::kernels {
namespace {

struct Ema {
  struct Rates {
    float weight;
  };

  explicit Ema(const UpdateOptions&) {}

  static Rates rates(const OptimizerItem& item, const UpdateOptions&) {
    return {static_cast<float>(item.learning_rate)};
  }
  SACCADE_HD void operator()(const Rates& r, float value, float& average) const {
    average = lerp(average, value, r.weight);
  }
};

[[maybe_unused]] const bool ema_registered = (register_update<Ema>("ema"), true);

}  // namespace
}  // namespace saccade::kernels
