// Learning-rate schedules: what the base rates of all parameter groups are multiplied by. A pure function of the step, so that a
// resumed run follows the same curve; time never enters. A schedule is one file of train/optimizers/schedules that registers
// itself; the warm-up comes on top of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/runtime/registry.h"

namespace saccade {

struct ScheduleOptions {
  std::string type = "step";        // a registered name
  int64_t warmup_steps = 0;         // 1/n, 2/n, ... 1
  double warmup_epochs = 0;         // in place of warmup_steps: this times steps_per_epoch, rounded
  double warmup_ratio = 0;          // where above 0: from this at step 0 to 1 at step n
  std::vector<double> drop_epochs;  // step: times gamma at each
  double gamma = 0.1;
  double final_ratio = 0;         // cosine, flat_cosine: what the factor ends at
  double flat_epochs = 0;         // flat_cosine: up to here the factor is 1
  double end_epochs = 0;          // flat_cosine: so many at the end have the last factor
  bool quadratic_warmup = false;  // the warm-up's share of the way, squared
};

struct SchedulePoint {
  int64_t step = 0;            // of the optimizer, from 0
  int64_t warmup_steps = 0;    // that the warm-up takes
  double steps_per_epoch = 1;  // above 0, may be fractional
  int64_t total_steps = 1;     // above 0: the planned length
};

struct ScheduleSpec {
  std::string name;
  std::string file;
  bool needs_end = false;  // reads total_steps, so the run must have a planned length
  double (*factor)(const ScheduleOptions& options, const SchedulePoint& at);
};
Registry<ScheduleSpec>& schedules();

// Throws InputError for an unknown type or two lengths of the warm-up.
void check_schedule(const ScheduleOptions& options);

// The factor of optimizer step `step`: the schedule's, times, during the n steps of the warm-up, (step + 1) / n, or
// ratio + (1 - ratio) * step / n with a warmup_ratio; the fraction squared with quadratic_warmup.
double learning_rate_factor(const ScheduleOptions& options, int64_t step, double steps_per_epoch,
                            int64_t total_steps);

}  // namespace saccade
