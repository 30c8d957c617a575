// final + (1 - final) * (1 - t)^power with t from 0 at the first step, with or without warm-up, to 1 at
// total_steps, as in mmsegmentation; final is its `min_lr` divided by the first rate.
#include <algorithm>
#include <cmath>

#include "train/optimizers/schedule.h"

namespace saccade {
namespace {

double poly(const config::Schedule& options, const SchedulePoint& at) {
  const double t = std::clamp(static_cast<double>(at.step) / static_cast<double>(at.total_steps), 0.0, 1.0);
  return options.final_ratio() + (1 - options.final_ratio()) * std::pow(1 - t, options.power());
}

[[maybe_unused]] const bool poly_registered =
    schedules().add({.name = "poly", .needs_end = true, .factor = &poly});

}  // namespace
}  // namespace saccade
