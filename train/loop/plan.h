// How a run is divided into steps: a function of the configuration and the size of the data set.
#pragma once

#include <cstdint>

#include "train/config/config.h"

namespace saccade {

// A step takes `accumulate` batches, which run on over the ends of epochs.
struct TrainingPlan {
  static constexpr int64_t kNoLimit = int64_t{1} << 60;

  int64_t batches_per_epoch = 1, accumulate = 1;
  double eval_every_epochs = 0;
  int64_t total_steps = kNoLimit;  // kNoLimit when only time ends the run

  double steps_per_epoch() const {
    return static_cast<double>(batches_per_epoch) / static_cast<double>(accumulate);
  }
  double epochs_after(int64_t step) const { return static_cast<double>(step) / steps_per_epoch(); }
  // Whether step `step`, counted from 1, completes a period of `epochs` (0: there are none).
  bool ends_period(int64_t step, double epochs) const;
  bool evaluates(int64_t step) const { return step == total_steps || ends_period(step, eval_every_epochs); }
};

// Throws InputError when nothing ends the run, or a schedule needs an end that is not there.
TrainingPlan make_plan(const Config& config, int64_t batches_per_epoch);

}  // namespace saccade
