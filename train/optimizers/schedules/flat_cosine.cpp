// 1 up to flat_epochs, then half a cosine down to final_ratio, which holds for the last end_epochs (DEIM;
// Huang et al. 2025).
#include <cmath>
#include <numbers>

#include "train/optimizers/schedule.h"

namespace saccade {
namespace {

double flat_cosine(const config::Schedule& options, const SchedulePoint& at) {
  const double begin = options.flat_epochs() * at.steps_per_epoch;
  const double end = static_cast<double>(at.total_steps) - options.end_epochs() * at.steps_per_epoch;
  const auto step = static_cast<double>(at.step);
  if (step < begin) return 1;
  const double t = step < end ? (step - begin) / (end - begin) : 1;
  return options.final_ratio() + (1 - options.final_ratio()) * 0.5 * (1 + std::cos(std::numbers::pi * t));
}

[[maybe_unused]] const bool flat_cosine_registered =
    schedules().add({.name = "flat_cosine", .needs_end = true, .factor = &flat_cosine});

}  // namespace
}  // namespace saccade
