#include "train/config/overfit.h"

#include <algorithm>

#include "train/config/recipes.h"

namespace saccade {

void overfit(Config& config, int64_t images, int64_t available, const QuickFlags& quick,
             const std::vector<std::string>& sets) {
  constexpr int64_t kSteps = 1000, kEvaluationSteps = 250, kWarmup = 50;
  config::Data& data = *config.mutable_data();
  data.set_overfit(static_cast<int32_t>(images));
  data.set_batch_size(static_cast<int32_t>(std::min<int64_t>(data.batch_size(), data.overfit())));
  config::Train& train = *config.mutable_train();
  train.set_accumulate(1);
  train.set_epochs(0);
  train.set_max_steps(kSteps);
  train.set_ema_decay(0);
  const int64_t batches = std::max<int64_t>(data.overfit() / data.batch_size(), 1);
  train.set_eval_every_epochs(static_cast<double>(kEvaluationSteps) / static_cast<double>(batches));
  config::Schedule& schedule = *config.mutable_schedule();
  schedule.Clear();
  schedule.set_type("cosine");
  schedule.set_warmup_steps(kWarmup);
  schedule.set_final_ratio(0.01);
  for (const FlagEdit& edit :
       flag_edits(config, {.batch = quick.batch, .learning_rate = quick.learning_rate}, true))
    apply_set(config, edit.assignment);
  if (quick.epochs > 0) {
    train.set_epochs(static_cast<double>(quick.epochs));
    train.set_max_steps(0);
  }
  for (const std::string& set : sets)  // edits that append to a list were already applied
    if (!set.starts_with("optimizer.group") && !set.starts_with("model")) apply_set(config, set);
  fit_warmup(config, std::min<int64_t>(available, data.overfit()), sets);
}

}  // namespace saccade
