#include "train/optimizers/schedule.h"

#include <algorithm>
#include <cmath>

#include "core/tensor/error.h"

namespace saccade {

void check_schedule(const ScheduleOptions& o) {
  if (o.type != "constant" && o.type != "step" && o.type != "cosine")
    fail_input("schedule.type: unknown schedule \"{}\", expected constant, step or cosine", o.type);
  if (o.warmup_steps < 0) fail_input("schedule.warmup_steps: got {}, expected at least 0", o.warmup_steps);
  if (!(o.warmup_epochs >= 0))
    fail_input("schedule.warmup_epochs: got {}, expected at least 0", o.warmup_epochs);
  if (o.warmup_steps > 0 && o.warmup_epochs > 0)
    fail_input("schedule.warmup_epochs: {} beside warmup_steps = {}, expected only one of them",
               o.warmup_epochs, o.warmup_steps);
  if (!(o.warmup_ratio >= 0 && o.warmup_ratio <= 1))
    fail_input("schedule.warmup_ratio: got {}, expected a number in [0, 1]", o.warmup_ratio);
  if (!(o.gamma > 0 && o.gamma <= 1))
    fail_input("schedule.gamma: got {}, expected a number in (0, 1]", o.gamma);
  if (!(o.final_ratio >= 0 && o.final_ratio <= 1))
    fail_input("schedule.final_ratio: got {}, expected a number in [0, 1]", o.final_ratio);
  for (double e : o.drop_epochs)
    if (!(e >= 0)) fail_input("schedule.drop_epochs: got {}, expected numbers of at least 0", e);
}

double learning_rate_factor(const ScheduleOptions& o, int64_t step, double steps_per_epoch,
                            int64_t total_steps) {
  SACCADE_CHECK(step >= 0 && steps_per_epoch > 0 && total_steps > 0,
                "[schedule] step {}, {} steps an epoch, {} in all: expected step >= 0 and the others > 0",
                step, steps_per_epoch, total_steps);
  const int64_t warmup =
      o.warmup_epochs > 0 ? std::llround(o.warmup_epochs * steps_per_epoch) : o.warmup_steps;
  double factor = 1;
  if (o.type == "step") {
    for (double epoch : o.drop_epochs)
      if (static_cast<double>(step) >= epoch * steps_per_epoch) factor *= o.gamma;
  } else if (o.type == "cosine") {
    double done = static_cast<double>(step - warmup);
    double length = static_cast<double>(std::max<int64_t>(total_steps - warmup, 1));
    double t = std::clamp(done / length, 0.0, 1.0);
    factor = o.final_ratio + (1 - o.final_ratio) * 0.5 * (1 + std::cos(3.14159265358979323846 * t));
  }
  if (step < warmup) {
    double s = static_cast<double>(step), n = static_cast<double>(warmup);
    factor *= o.warmup_ratio > 0 ? o.warmup_ratio + (1 - o.warmup_ratio) * s / n : (s + 1) / n;
  }
  return factor;
}

}  // namespace saccade
