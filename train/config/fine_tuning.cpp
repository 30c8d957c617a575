#include "train/config/fine_tuning.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "models/build.h"
#include "train/config/recipes.h"

namespace saccade {
namespace {

constexpr int64_t kMaxOfTuningStep = 16, kStepsAnEpoch = 5, kImagesForMosaic = 1000;
constexpr double kShortestAverage = 100, kAverageShare = 50, kTuningWarmupShare = 20, kTuningPlainShare = 0.1;
constexpr int32_t kShortestWarmup = 100, kLongestWarmup = 500;

class FineTuning {
 public:
  FineTuning(const Config& config, const DataSize& size, const std::vector<std::string>& sets,
             const QuickFlags& quick)
      : config_(config), size_(size), sets_(sets), quick_(quick) {}

  Config run() {
    fit_step();
    const double epochs = config_.train().epochs(), steps = epochs * static_cast<double>(size_.images) /
                                                            static_cast<double>(images_of_step(config_));
    fit_averages(steps);
    fit_rates(epochs, steps);
    fit_augmentation(epochs);
    return config_;
  }

 private:
  bool is_free(std::string_view field) const { return !is_set(sets_, field); }

  void fit_step() {
    const int64_t before = images_of_step(config_),
                  most = std::clamp<int64_t>(size_.images / kStepsAnEpoch, 1, kMaxOfTuningStep);
    if (before <= most || quick_.batch > 0 || !is_free("data.batch_size") || !is_free("train.accumulate"))
      return;
    const int64_t batch = std::min<int64_t>(resolve_config(config_).data().batch_size(), most);
    config_.mutable_data()->set_batch_size(static_cast<int32_t>(batch));
    config_.mutable_train()->set_accumulate(static_cast<int32_t>(most / batch));
    if (is_free("optimizer.learning_rate") && !quick_.learning_rate)
      config_.mutable_optimizer()->set_learning_rate(config_.optimizer().learning_rate() *
                                                     static_cast<double>(images_of_step(config_)) /
                                                     static_cast<double>(before));
  }

  void fit_averages(double steps) {
    config::Train& train = *config_.mutable_train();
    const double length = std::max(kShortestAverage, steps / kAverageShare);
    if (is_free("train.ema_decay")) train.set_ema_decay(std::min(train.ema_decay(), 1 - 1 / length));
    if (is_free("train.ema_tau")) train.set_ema_tau(std::min(train.ema_tau(), length));
  }

  void fit_rates(double epochs, double steps) {
    config::Schedule& schedule = *config_.mutable_schedule();
    if (is_free("schedule.warmup_steps") && schedule.warmup_epochs() == 0)
      schedule.set_warmup_steps(std::min(std::clamp(schedule.warmup_steps(), kShortestWarmup, kLongestWarmup),
                                         static_cast<int32_t>(std::min(steps / kTuningWarmupShare, 1e9))));
    // A step schedule without drops is constant.
    const bool is_constant =
        schedule.type() == "constant" || (schedule.type() == "step" && schedule.drop_epochs_size() == 0);
    if (!is_constant || !is_free("schedule.type")) return;
    schedule.set_type("flat_cosine");
    schedule.set_flat_epochs((1 - 2 * kTuningPlainShare) * epochs);
    schedule.set_end_epochs(kTuningPlainShare * epochs);
    schedule.set_final_ratio(0.1);
  }

  void fit_augmentation(double epochs) {
    config::Augment& augment = *config_.mutable_data()->mutable_augment();
    if (size_.images <= kImagesForMosaic) {
      if (is_free("data.augment.mosaic") && augment.mosaic() > 0) augment.set_mosaic(0);
      if (is_free("data.augment.batch_mixup") && augment.batch_mixup() > 0) augment.set_batch_mixup(0);
    }
    const auto plain_from = static_cast<int32_t>(std::ceil((1 - kTuningPlainShare) * epochs));
    if (augment.strong_stop_epoch() > 0 && is_free("data.augment.strong_stop_epoch"))
      augment.set_strong_stop_epoch(std::max(plain_from, augment.strong_start_epoch()));
  }

  Config config_;
  const DataSize& size_;
  const std::vector<std::string>& sets_;
  const QuickFlags& quick_;
};

}  // namespace

Config fine_tuned(const Config& config, const DataSize& size, const std::vector<std::string>& sets,
                  const QuickFlags& quick) {
  const Config before = resolve_config(config);
  const bool is_transformer = model_types().find(before.model().type(), "model.type").reads("transformer");
  if (!is_transformer || before.train().ema_decay() <= 0 || before.train().epochs() <= 0 || size.images <= 0)
    return config;
  return FineTuning(config, size, sets, quick).run();
}

}  // namespace saccade
