// What the trainer trains: a model with its batches, its loss and its metrics. Each task implements it; the
// trainer knows of neither boxes nor classes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/types/metrics.h"
#include "core/types/step_images.h"
#include "data/formats/data_format.h"
#include "data/loading/loader.h"
#include "layers/module.h"
#include "train/config/config.h"

namespace saccade {

// A loss and its parts by name ("class", "bbox", ...), already weighted: the loss is their sum.
struct TrainingLoss {
  Var total;                                          // [] f32
  std::vector<std::pair<std::string, Tensor>> parts;  // [] f32 each, on the model's device
  // Further metrics to log; called when the step is over on the device too, so that nothing waits for it.
  std::function<MeanMetrics()> metrics = [] { return MeanMetrics(); };
  // Predictions that are not finite, one line each with the image; for the diagnosis.
  std::vector<std::string> problems = {};
};

// The key of a step's random numbers (execution().rng_key); `step` counts the steps before it.
uint64_t rng_key_of_step(const Config& config, int64_t step);

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  virtual Module& model() = 0;
  virtual std::vector<std::string> class_names() const = 0;  // [K]
  // [K], of the annotations; empty if classes have only names.
  virtual std::vector<int64_t> category_ids() const = 0;
  // What the user should know about the data, one line each.
  virtual std::vector<std::string> describe_data() const { return {}; }

  virtual int64_t image_count() const { return 0; }  // of the training set; 0 if unknown
  // A short identifier of the images it trains on: it differs for another set. Empty if unknown.
  virtual std::string images() const { return ""; }

  virtual int64_t batches_per_epoch() const = 0;
  // Opens an endless source of batches, from batch `batch` of epoch `epoch` on; it yields this process's part
  // of each (core/distributed).
  virtual std::function<Batch()> open_batches(int64_t epoch, int64_t batch) = 0;
  // The largest batch that training can meet, of noise; nothing if unknown.
  virtual std::optional<Batch> largest_batch() const { return std::nullopt; }
  // What the losses of a step need to know about the images of one of its batches.
  virtual StepImages images_of(const Batch& batch) const { return StepImages(batch.targets); }
  // Returns the loss of one batch: a sum over the batch, divided by a number of the whole step, whose images
  // (those of this batch, of others and of other processes) are `step`. The losses of a step's batches, and
  // their gradients, are added up. Calls forward_done between the model's forward pass and the loss, for the
  // log.
  virtual TrainingLoss loss(const Batch& batch, const StepImages& step,
                            const std::function<void()>& forward_done) = 0;

  // The metrics that an evaluation reports on the console; the first decides which weights are best (larger
  // is better). Empty if there is nothing to evaluate on.
  virtual std::vector<std::string> primary_metrics() const = 0;
  // Returns the current model's metrics on the validation set, including the primary ones. quiet: no progress
  // line
  virtual Metrics evaluate(bool quiet) = 0;
  // What the user should know about the last evaluation, one line each; printed once.
  virtual std::vector<std::string> evaluation_notes() const { return {}; }
  // Some images of the validation set with what the last evaluation found on them, each with a distinct name.
  virtual std::vector<std::pair<std::string, Image>> pictures() { return {}; }
};

// A task whose batches are the images of the configuration's training set, and which is evaluated on those of
// its validation set.
class ImageTrainingTask : public TrainingTask {
 public:
  std::vector<std::string> class_names() const override { return train_set_->class_names(); }
  std::vector<int64_t> category_ids() const override { return train_set_->category_ids(); }
  std::vector<std::string> describe_data() const override { return notes_; }
  int64_t image_count() const override { return train_set_->num_images(); }
  // Identifies the images by their ids and names, wherever their folder is.
  std::string images() const override;
  int64_t batches_per_epoch() const override;
  std::function<Batch()> open_batches(int64_t epoch, int64_t batch) override;

 protected:
  // Called from the loader's threads, before the batch's step (its execution().rng_key) asks for the loss.
  virtual void prepare(const Batch& /*batch*/, uint64_t /*rng_key*/) const {}
  // Opens the data sets. Throws InputError for what they lack.
  explicit ImageTrainingTask(const Config& config);

  Config config_;
  std::vector<std::string> notes_;  // about both sets
  DataSplits splits_;
  std::shared_ptr<const Dataset> train_set_, val_set_;  // val_set_: may be null

 private:
  LoaderOptions loader_;
};

}  // namespace saccade
