#include "train/optimizers/schedule.h"

#include <cmath>

namespace saccade {

void check_schedule(const config::Schedule& o) {
  schedules().find(o.type(), "schedule.type");
  if (o.warmup_steps() > 0 && o.warmup_epochs() > 0)
    fail_input("schedule.warmup_epochs ({}) and schedule.warmup_steps ({}) cannot be combined",
               o.warmup_epochs(), o.warmup_steps());
}

int64_t warmup_steps(const config::Schedule& o, double steps_per_epoch) {
  return o.warmup_epochs() > 0 ? std::llround(o.warmup_epochs() * steps_per_epoch) : o.warmup_steps();
}

double learning_rate_factor(const config::Schedule& o, int64_t step, double steps_per_epoch,
                            int64_t total_steps) {
  SACCADE_CHECK(step >= 0 && steps_per_epoch > 0 && total_steps > 0,
                "[schedule] step {}, {} steps an epoch, {} in all: expected step >= 0 and the others > 0",
                step, steps_per_epoch, total_steps);
  const int64_t warmup = warmup_steps(o, steps_per_epoch);
  double factor = schedules().find(o.type()).factor(o, {step, warmup, steps_per_epoch, total_steps});
  if (step < warmup) {
    double s = static_cast<double>(step), n = static_cast<double>(warmup);
    if (o.warmup_shape() == "quadratic") {
      const double way = o.warmup_ratio() > 0 ? s / n : (s + 1) / n;
      factor *= o.warmup_ratio() + (1 - o.warmup_ratio()) * way * way;
    } else {
      factor *= o.warmup_ratio() > 0 ? o.warmup_ratio() + (1 - o.warmup_ratio()) * s / n : (s + 1) / n;
    }
  }
  return factor;
}

}  // namespace saccade
