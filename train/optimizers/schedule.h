// Learning-rate schedules: the factor for the base rates of all parameter groups. A pure function of the
// step, so that a resumed run follows the same curve; time never enters. A schedule is one file in
// train/optimizers/schedules that registers itself; the warm-up is applied on top of each.
#pragma once

#include <cstdint>
#include <string>

#include "configs/saccade.pb.h"
#include "core/runtime/registry.h"

namespace saccade {

struct SchedulePoint {
  int64_t step = 0;            // of the optimizer, counted from 0
  int64_t warmup_steps = 0;    // length of the warm-up
  double steps_per_epoch = 1;  // above 0, may be fractional
  int64_t total_steps = 1;     // above 0: the planned length
};

struct ScheduleSpec {
  std::string name;
  std::string file;
  bool needs_end = false;  // reads total_steps, so the run must have a planned length
  double (*factor)(const config::Schedule& options, const SchedulePoint& at);
};
inline Registry<ScheduleSpec>& schedules() { return registry_of<ScheduleSpec>("schedule"); }

// Throws InputError for an unknown type or if the length of the warm-up is given twice.
void check_schedule(const config::Schedule& options);

int64_t warmup_steps(const config::Schedule& options, double steps_per_epoch);
// Returns the factor of optimizer step `step`: the schedule's factor, multiplied during the n steps of the
// warm-up by (step + 1) / n, or by ratio + (1 - ratio) * step / n with a warmup_ratio; this fraction is
// squared if warmup_shape is "quadratic".
double learning_rate_factor(const config::Schedule& options, int64_t step, double steps_per_epoch,
                            int64_t total_steps);

}  // namespace saccade
