// The kinds of task: detection, classification, segmentation. One object knows all that is particular to its
// kind; it registers itself from its own folder (train/tasks), and a model's type names it (models/build.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/registry.h"
#include "data/formats/data_format.h"
#include "data/loading/batch.h"
#include "train/config/config.h"

namespace saccade {

class Answerer;      // train/inference/answerer.h
class Inferencer;    // train/inference/answerer.h
class Module;        // layers/module.h
class Page;          // data/pages/html.h
class Predictor;     // train/inference/predictor.h
class TrainingTask;  // train/loop/training_task.h
struct EvalArguments;
struct Evaluation;  // data/evaluation/evaluators.h
struct EvaluatorOptions;
struct LoadedModel;  // train/checkpoints/load_model.h
struct MetricChart;  // train/report/run_metrics.h
struct ModelSummary;
struct PredictArguments;
struct ReportOptions;

struct DataSize {
  int64_t classes = 0, images = 0;
};

// By label. Where classes are categories, ids are theirs; else it is empty.
struct Classes {
  std::vector<std::string> names;
  std::vector<int64_t> ids;
};

class Task {
 public:
  virtual ~Task() = default;

  // What a configuration must fulfil, beyond ranges, and a split of its data before training.
  // Throw InputError.
  virtual void check(const Config& /*config*/) const {}
  virtual void check_split(const std::string& field, const config::Split& split) const = 0;
  // Fields, or messages of them, that say nothing to any other task.
  virtual std::vector<std::string> own_fields() const { return {}; }

  // What its data sets must say of each image.
  virtual Contents needs(const Config& config) const = 0;
  // Of the training data, or, when it is not at hand, nothing; and what is assumed then: 91 classes,
  // as in "COCO".
  virtual std::optional<DataSize> data_size(const Config& config) const;
  struct UsualClasses {
    int64_t count;
    const char* dataset;
  };
  virtual UsualClasses usual_classes() const = 0;
  // Draws what image n of the batch is said to hold; returns it in words: "3 objects".
  virtual std::string draw_target(Image& image, const Batch& batch, size_t n,
                                  const std::vector<std::string>& class_names) const = 0;

  // Throws InputError where a checkpoint's classes lack what it needs; these two are of categories.
  virtual void check_classes(const Classes& classes, const std::string& checkpoint) const;
  virtual Classes unnamed_classes(int64_t count) const;
  // Those of other people's weights. `labels`: names in the order of the outputs, where the files have them;
  // `annotations`: of a data set with the same classes, or "". Sets what follows for the data; what was taken
  // for what is added to notes. Throws InputError, as where no weights of others are known.
  virtual Classes classes_of_weights(Config& config, const std::vector<std::string>& /*labels*/,
                                     const std::string& /*annotations*/,
                                     std::vector<std::string>& /*notes*/) const {
    fail_input("model.type: no weights of others are known for \"{}\"", config.model().type());
  }

  // Builds the model and opens the data sets. Throws InputError for what the configuration or the data sets
  // lack.
  virtual std::unique_ptr<TrainingTask> training(const Config& config) const = 0;
  // What an evaluation in training reports; by the first the best weights are chosen.
  // Throws InputError for an unknown evaluator.
  virtual std::vector<std::string> primary_metrics(const Config& config) const;
  virtual std::vector<MetricChart> charts() const = 0;  // of these and others, for a run's page

  // The model at work: results for batches. Refers to the model.
  virtual std::unique_ptr<Inferencer> inferencer(const LoadedModel& model) const = 0;
  // The same for images that come one at a time. Refers to the model. Throws InputError,
  // as where the task has none.
  virtual std::unique_ptr<Answerer> answerer(const LoadedModel& /*model*/) const {
    fail_input("a model of this kind cannot answer for single images");
  }
  // These two throw InputError for arguments that do not go with the task;
  // a Predictor refers to both of its arguments.
  virtual Evaluation evaluate(const EvalArguments& arguments, const LoadedModel& model,
                              const EvaluatorOptions& options) const = 0;
  virtual std::unique_ptr<Predictor> predictor(const PredictArguments& arguments,
                                               const LoadedModel& model) const = 0;
  // Adds the sections of a run's page about its model; returns the metrics as JSON.
  virtual std::string report(Page& page, const ReportOptions& options) const = 0;
  // For one image of that size.
  virtual ModelSummary summarize(Module& model, int64_t height, int64_t width) const = 0;
};

struct RegisteredTask {
  std::string name;  // "detection"
  std::string file;
  std::shared_ptr<const Task> task;
};
inline Registry<RegisteredTask>& tasks() { return registry_of<RegisteredTask>("task"); }
// Throws InputError when the model's type is not known.
const std::string& task_name(const Config& config);
const Task& task_of(const Config& config);

}  // namespace saccade
