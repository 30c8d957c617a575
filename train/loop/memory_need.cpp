#include "train/loop/training_run.h"

#include <algorithm>

#include "core/kernels/optimizer/optimizer.h"
#include "core/tensor/error.h"
#include "core/tensor/integers.h"
#include "core/tensor/memory.h"
#include "train/config/options.h"
#include "train/optimizers/optimizer.h"

namespace saccade {
namespace {

// The bytes of a square image of the smallest size that is drawn.
double image_bytes(const Config& config) {
  const config::Data& data = config.data();
  int64_t height = data.augment().height(), width = data.augment().width();
  if (height == 0) {
    const std::vector<double> sides = augment_fields(config).values.at("short_sides");
    const double shortest = *std::min_element(sides.begin(), sides.end());
    height = width = std::min<int64_t>(static_cast<int64_t>(shortest), data.augment().long_side());
  }
  for (int64_t drawn : data.augment().multi_scale_heights()) {
    if (drawn >= height) continue;
    width = std::max<int64_t>(1, width * drawn / height);
    height = drawn;
  }
  const int64_t multiple = std::max(1, data.pad_multiple());
  return 3.0 * static_cast<double>(round_up(height, multiple)) *
         static_cast<double>(round_up(width, multiple));
}

}  // namespace

void check_memory_need(const Config& config, const Module& model, Device device) {
  constexpr double kF32 = sizeof(float);
  // The only batch of an epoch may be smaller.
  const double batch = image_bytes(config) * (config.data().drop_last() ? config.data().batch_size() : 1);
  const double images = batch * config.train().accumulate();
  double state = 0, floats = 0;
  if (device == Device::kCpu) {
    const config::Optimizer& options = config.optimizer();
    const auto copies = kernels::optimizers()
                            .find(options.type(), "optimizer.type")
                            .state_names(update_options(options))
                            .size();
    state = kF32 * static_cast<double>(model.parameter_count(true)) * static_cast<double>(1 + copies);
    if (config.train().ema_decay() > 0) state += model.tensor_bytes();
    floats = batch * kF32;
  }
  const auto available = static_cast<double>(available_memory());
  if (state + images + floats > available)
    fail_input(
        "training needs more than {:.1f} GB for gradients, optimizer state and averages and {:.1f} GB for the images "
        "of a step (data.batch_size x train.accumulate), but {:.1f} GB of memory are available",
        state / 1e9, (images + floats) / 1e9, available / 1e9);
}

}  // namespace saccade
