#include "train/loop/training_task.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/distributed/process_group.h"
#include "core/files/text.h"
#include "core/tensor/philox.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/splits.h"
#include "data/loading/named_images.h"
#include "train/config/options.h"
#include "train/config/task.h"

namespace saccade {

uint64_t rng_key_of_step(const Config& config, int64_t step) {
  return mix_key(config.seed() ^ hash_name("training step"), static_cast<uint64_t>(step));
}

namespace {

// `images`: how many there are, which may be fewer than were asked for.
std::string note_on_overfit(const Config& config, int64_t images) {
  const int64_t wanted = config.data().overfit();
  return fmt::format(
      "data.overfit: training and evaluation on the same {}{}, without augmentation; {} should approach 1",
      count_of(images, "image", "images"), images < wanted ? fmt::format(" ({} were asked for)", wanted) : "",
      task_of(config).primary_metrics(config).at(0));
}

}  // namespace

ImageTrainingTask::ImageTrainingTask(const Config& config)
    : config_(config),
      splits_(data_splits(config, &notes_)),
      train_set_(open_dataset(*splits_.train, label_scheme(config), &notes_)),
      loader_(train_loader(config)) {
  if (!splits_.train->wants.boxes && config.data().overfit() == 0)  // for boxes, remarks_on_classes has them
    for (const std::string& remark : remarks_on_names(train_set_->ground_truth().categories))
      notes_.push_back(fmt::format("note: {}: {}", train_set_->name(), remark));
  if (!splits_.val) return;
  const GroundTruth& training = train_set_->ground_truth();
  splits_.val->categories = training.categories;
  val_set_ = open_dataset(*splits_.val, label_scheme(config), &notes_);
  if (config.data().overfit() > 0) {
    notes_.push_back(note_on_overfit(config, image_count()));
    return;
  }
  if (!splits_.drawn.empty())
    notes_.push_back(fmt::format("{}: {} for training and {} for validation", train_set_->name(),
                                 count_of(image_count(), "image", "images"), val_set_->num_images()));
  for (const std::string& remark :
       remarks_on_split(training, *splits_.train, val_set_->ground_truth(), *splits_.val))
    notes_.push_back(fmt::format("note: {}: {}", val_set_->name(), remark));
}

std::string ImageTrainingTask::images() const { return name_of_images(*train_set_); }

int64_t ImageTrainingTask::batches_per_epoch() const {
  LoaderOptions options = loader_;
  options.threads = 0;  // no image is loaded
  return DataLoader(train_set_, std::move(options)).batches_per_epoch();
}

std::function<Batch()> ImageTrainingTask::open_batches(int64_t epoch, int64_t batch) {
  LoaderOptions options = loader_;
  options.rank = process_group().rank();
  options.ranks = process_group().size();
  options.start_epoch = epoch;
  options.start_batch = batch;
  options.made = [this, batches = batches_per_epoch(),
                  accumulate = std::max<int64_t>(config_.train().accumulate(), 1)](const Batch& made) {
    prepare(made, rng_key_of_step(config_, (made.epoch * batches + made.index) / accumulate));
  };
  auto loader = std::make_shared<DataLoader>(train_set_, std::move(options));
  return [loader] { return std::move(*loader->next()); };
}

}  // namespace saccade
