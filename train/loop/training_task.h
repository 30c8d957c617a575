// What the trainer trains: a model with its batches, its loss and its metrics. Detection and classification
// fill it; the trainer knows of neither boxes nor classes.
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

// A loss and its parts by name ("class", "bbox", ...), already weighted: their sum is the loss.
struct TrainingLoss {
  Var total;                                          // [] f32
  std::vector<std::pair<std::string, Tensor>> parts;  // [] f32 each, on the model's device
  // What is logged besides them; called when the step is over on the device too, so that nobody waits for it.
  std::function<MeanMetrics()> metrics = [] { return MeanMetrics(); };
  // Where predictions are not finite, a line each with its image; for the diagnosis.
  std::vector<std::string> problems = {};
};

// The random numbers of a step (execution().rng_key), of those before it `step`.
uint64_t rng_key_of_step(const Config& config, int64_t step);

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  virtual Module& model() = 0;
  virtual std::vector<std::string> class_names() const = 0;  // [K]
  // [K], of the annotations; empty where classes have names only.
  virtual std::vector<int64_t> category_ids() const = 0;
  // What the user should know about the data, a line each.
  virtual std::vector<std::string> describe_data() const { return {}; }

  virtual int64_t image_count() const { return 0; }  // of the training set; 0: not known
  // Which images it trains on, in a few characters: another set has another name. "": not known.
  virtual std::string images() const { return ""; }

  virtual int64_t batches_per_epoch() const = 0;
  // A source of batches from batch `batch` of epoch `epoch` on, without end;
  // of each the part of this process (core/distributed).
  virtual std::function<Batch()> open_batches(int64_t epoch, int64_t batch) = 0;
  // The largest batch that training can meet, of noise; nothing: not known.
  virtual std::optional<Batch> largest_batch() const { return std::nullopt; }
  // What the losses of a step need to know of the images of one of its batches.
  virtual StepImages images_of(const Batch& batch) const { return StepImages(batch.targets); }
  // The loss of one batch: a sum over it, divided by a number of the whole step, whose images (this batch's
  // among them, and those of other processes) are `step`. The losses of a step's batches, and their
  // gradients, are added up.
  // Calls forward_done between the model's forward pass and the loss, for the log.
  virtual TrainingLoss loss(const Batch& batch, const StepImages& step,
                            const std::function<void()>& forward_done) = 0;

  // The metrics that an evaluation reports on the console; the first decides which weights are the best (the
  // larger, the better). Empty: there is nothing to evaluate on.
  virtual std::vector<std::string> primary_metrics() const = 0;
  // Metrics of the model, as it is now, on the validation set, the primary ones among them. quiet:
  // no progress line
  virtual Metrics evaluate(bool quiet) = 0;
  // What the user should know about the last evaluation, a line each; told once.
  virtual std::vector<std::string> evaluation_notes() const { return {}; }
  // Some images of the validation set with what the last evaluation found on them,
  // each with a name of its own.
  virtual std::vector<std::pair<std::string, Image>> pictures() { return {}; }
};

// One whose batches are the images of the configuration's training set,
// and which is evaluated on those of its validation set.
class ImageTrainingTask : public TrainingTask {
 public:
  std::vector<std::string> class_names() const override { return train_set_->class_names(); }
  std::vector<int64_t> category_ids() const override { return train_set_->category_ids(); }
  std::vector<std::string> describe_data() const override { return notes_; }
  int64_t image_count() const override { return train_set_->num_images(); }
  // By their ids and names, wherever their folder is.
  std::string images() const override;
  int64_t batches_per_epoch() const override;
  std::function<Batch()> open_batches(int64_t epoch, int64_t batch) override;

 protected:
  // Called from the loader's threads, before the batch's step (its execution().rng_key) asks for the loss.
  virtual void prepare(const Batch& /*batch*/, uint64_t /*rng_key*/) const {}
  // Opens the sets. Throws InputError for what they lack.
  explicit ImageTrainingTask(const Config& config);

  Config config_;
  std::vector<std::string> notes_;  // about both sets
  DataSplits splits_;
  std::shared_ptr<const Dataset> train_set_, val_set_;  // val_set_: may be null

 private:
  LoaderOptions loader_;
};

}  // namespace saccade
