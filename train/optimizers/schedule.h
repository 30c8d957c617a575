// Learning-rate schedules: what the base rates of all parameter groups are multiplied by. A pure function of
// the step, so that a resumed run follows the same curve; time never enters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace saccade {

struct ScheduleOptions {
  std::string type = "step";        // constant, step, cosine
  int64_t warmup_steps = 0;         // linear: 1/n, 2/n, ... 1
  double warmup_epochs = 0;         // in place of warmup_steps: this times steps_per_epoch, rounded
  double warmup_ratio = 0;          // where above 0: linear from this at step 0 to 1 at step n
  std::vector<double> drop_epochs;  // step: times gamma at each
  double gamma = 0.1;
  double final_ratio = 0;  // cosine: what the factor ends at
};

// Throws InputError for an unknown type or values out of range.
void check_schedule(const ScheduleOptions& options);

// The factor of optimizer step `step` (from 0). steps_per_epoch > 0 may be fractional; total_steps > 0 is the
// planned length.
//   step:    gamma^(number of drop_epochs at or before step / steps_per_epoch)
//   cosine:  final + (1 - final) * (1 + cos(pi * t)) / 2 with t from 0 after the warm-up to 1 at total_steps
// times, during the n steps of the warm-up, (step + 1) / n, or ratio + (1 - ratio) * step / n with a
// warmup_ratio.
double learning_rate_factor(const ScheduleOptions& options, int64_t step, double steps_per_epoch,
                            int64_t total_steps);

}  // namespace saccade
