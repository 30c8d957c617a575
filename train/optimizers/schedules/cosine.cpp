// final + (1 - final) * (1 + cos(pi * t)) / 2 with t from 0 after the warm-up to 1 at total_steps
// (Loshchilov & Hutter 2017, without restarts)
#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/optimizers/schedule.h"

namespace saccade {
namespace {

double cosine(const config::Schedule& options, const SchedulePoint& at) {
  const auto done = static_cast<double>(at.step - at.warmup_steps);
  const auto length = static_cast<double>(std::max<int64_t>(at.total_steps - at.warmup_steps, 1));
  const double t = std::clamp(done / length, 0.0, 1.0);
  return options.final_ratio() + (1 - options.final_ratio()) * 0.5 * (1 + std::cos(std::numbers::pi * t));
}

[[maybe_unused]] const bool cosine_registered =
    schedules().add({.name = "cosine", .needs_end = true, .factor = &cosine});

}  // namespace
}  // namespace saccade
