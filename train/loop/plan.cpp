#include "train/loop/plan.h"

#include <algorithm>
#include <cmath>

#include "core/tensor/error.h"
#include "train/optimizers/schedule.h"

namespace saccade {

bool TrainingPlan::ends_period(int64_t step, double epochs) const {
  // How many periods are complete after `after` steps.
  auto periods = [&](int64_t after) {
    double batches = static_cast<double>(after * accumulate);
    return std::floor(batches / (static_cast<double>(batches_per_epoch) * epochs) + 1e-9);
  };
  return epochs > 0 && step > 0 && periods(step) > periods(step - 1);
}

TrainingPlan make_plan(const Config& c, int64_t batches_per_epoch) {
  SACCADE_CHECK(batches_per_epoch > 0, "[train] {} batches an epoch, expected at least 1", batches_per_epoch);
  const config::Train& t = c.train();
  TrainingPlan plan{batches_per_epoch, std::max<int64_t>(t.accumulate(), 1), t.eval_every_epochs()};
  if (t.epochs() > 0)
    plan.total_steps =
        std::max<int64_t>(1, static_cast<int64_t>(std::ceil(t.epochs() * plan.steps_per_epoch() - 1e-9)));
  if (t.max_steps() > 0) plan.total_steps = std::min<int64_t>(plan.total_steps, t.max_steps());
  if (plan.total_steps == TrainingPlan::kNoLimit && t.max_minutes() <= 0)
    fail_input("train: one of epochs, max_steps and max_minutes must be set, or the training never ends");
  if (plan.total_steps == TrainingPlan::kNoLimit &&
      schedules().find(c.schedule().type(), "schedule.type").needs_end)
    fail_input("schedule.type: {} needs train.epochs or train.max_steps, for its end", c.schedule().type());
  return plan;
}

}  // namespace saccade
