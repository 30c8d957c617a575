#include "train/loop/training_task.h"

namespace saccade {

std::function<Batch()> endless_batches(std::shared_ptr<const ImageSource> images, LoaderOptions options,
                                       int64_t epoch, int64_t batch) {
  options.start_epoch = epoch;
  options.start_batch = batch;
  auto loader = std::make_shared<DataLoader>(std::move(images), std::move(options));
  return [loader] { return std::move(*loader->next()); };
}

}  // namespace saccade
