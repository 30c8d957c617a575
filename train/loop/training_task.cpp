#include "train/loop/training_task.h"

#include "core/distributed/process_group.h"
#include "core/files/checksum.h"

namespace saccade {

std::string ImageTrainingTask::images() const {
  const auto set = training_set();
  Checksum sum;
  for (int64_t i = 0; i < set->num_images(); ++i) {
    const std::string line = std::to_string(set->image_id(i)) + " " + set->file_name(i) + "\n";
    sum.add(line.data(), line.size());
  }
  return std::to_string(set->num_images()) + " images " + checksum_text(sum.value());
}

int64_t ImageTrainingTask::batches_per_epoch() const {
  LoaderOptions options = loader_;
  options.threads = 0;  // nothing is loaded
  return DataLoader(training_set(), std::move(options)).batches_per_epoch();
}

std::function<Batch()> ImageTrainingTask::open_batches(int64_t epoch, int64_t batch) {
  LoaderOptions options = loader_;
  options.rank = process_group().rank();
  options.ranks = process_group().size();
  options.start_epoch = epoch;
  options.start_batch = batch;
  auto loader = std::make_shared<DataLoader>(training_set(), std::move(options));
  return [loader] { return std::move(*loader->next()); };
}

}  // namespace saccade
