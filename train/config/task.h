// The kinds of task: detection, classification, segmentation. One object holds everything specific to its
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

// In the order of labels. If classes are categories, `ids` holds their ids; otherwise it is empty.
struct Classes {
  std::vector<std::string> names;
  std::vector<int64_t> ids;
};

class Task {
 public:
  virtual ~Task() = default;

  // Check a configuration beyond the ranges of its fields, and a split of its data before training. Throw
  // InputError.
  virtual void check(const Config& /*config*/) const {}
  virtual void check_split(const std::string& field, const config::Split& split) const = 0;
  // Fields, or messages of fields, that have no meaning for any other task.
  virtual std::vector<std::string> own_fields() const { return {}; }

  // What the data sets must provide for each image.
  virtual Contents needs(const Config& config) const = 0;
  // The size of the training data, or nothing if they are not at hand; below, what is then assumed: 91
  // classes, as in "COCO".
  virtual std::optional<DataSize> data_size(const Config& config) const;
  struct UsualClasses {
    int64_t count;
    const char* dataset;
  };
  virtual UsualClasses usual_classes() const = 0;
  // Draws the target of image n of the batch; returns it in words: "3 objects".
  virtual std::string draw_target(Image& image, const Batch& batch, size_t n,
                                  const std::vector<std::string>& class_names) const = 0;

  // Throws InputError if a checkpoint's classes lack something; these two implementations are for categories.
  virtual void check_classes(const Classes& classes, const std::string& checkpoint) const;
  virtual Classes unnamed_classes(int64_t count) const;
  // The classes of other projects' weights. `labels`: names in the order of the outputs, if the files have
  // them; `annotations`: of a data set with the same classes, or "". Sets the fields of the configuration
  // that follow for the data, and adds to notes which classes the outputs were taken for. Throws InputError,
  // also if no weights of other projects are known.
  virtual Classes classes_of_weights(Config& config, const std::vector<std::string>& /*labels*/,
                                     const std::string& /*annotations*/,
                                     std::vector<std::string>& /*notes*/) const {
    fail_input("model.type: no weights of other projects are known for \"{}\"", config.model().type());
  }

  // Builds the model and opens the data sets. Throws InputError for what the configuration or the data sets
  // lack.
  virtual std::unique_ptr<TrainingTask> training(const Config& config) const = 0;
  // The metrics that an evaluation in training reports; the first one selects the best weights. Throws
  // InputError for an unknown evaluator.
  virtual std::vector<std::string> primary_metrics(const Config& config) const;
  virtual std::vector<MetricChart> charts() const = 0;  // of these metrics and others, for a run's page

  // Runs the model on batches and returns results. Refers to the model.
  virtual std::unique_ptr<Inferencer> inferencer(const LoadedModel& model) const = 0;
  // The same for images that come one at a time. Refers to the model. Throws InputError, also if the task has
  // none.
  virtual std::unique_ptr<Answerer> answerer(const LoadedModel& /*model*/) const {
    fail_input("a model of this kind cannot process single images");
  }
  // These two throw InputError for arguments that do not fit the task; a Predictor refers to both of its
  // arguments.
  virtual Evaluation evaluate(const EvalArguments& arguments, const LoadedModel& model,
                              const EvaluatorOptions& options) const = 0;
  virtual std::unique_ptr<Predictor> predictor(const PredictArguments& arguments,
                                               const LoadedModel& model) const = 0;
  // Adds the sections of a run's page about its model; returns the metrics as JSON.
  virtual std::string report(Page& page, const ReportOptions& options) const = 0;
  // The costs for one image of that size.
  virtual ModelSummary summarize(Module& model, int64_t height, int64_t width) const = 0;
};

struct RegisteredTask {
  std::string name;  // "detection"
  std::string file;
  std::shared_ptr<const Task> task;
};
inline Registry<RegisteredTask>& tasks() { return registry_of<RegisteredTask>("task"); }
// Throws InputError if the model's type is unknown.
const std::string& task_name(const Config& config);
const Task& task_of(const Config& config);

}  // namespace saccade
