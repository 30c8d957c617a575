// gamma^(number of drop_epochs at or before step / steps_per_epoch)
#include "train/optimizers/schedule.h"

namespace saccade {
namespace {

double drops(const config::Schedule& options, const SchedulePoint& at) {
  double factor = 1;
  for (double epoch : options.drop_epochs())
    if (static_cast<double>(at.step) >= epoch * at.steps_per_epoch) factor *= options.gamma();
  return factor;
}

[[maybe_unused]] const bool step_registered = schedules().add({.name = "step", .factor = &drops});

}  // namespace
}  // namespace saccade
