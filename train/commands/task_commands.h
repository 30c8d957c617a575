// What `saccade eval` and `saccade predict` do with the models of a task: each task registers its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/runtime/registry.h"
#include "data/evaluation/evaluators.h"
#include "data/formats/data_format.h"
#include "data/images/image.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/commands.h"
#include "train/inference/evaluation.h"
#include "train/inference/picture_files.h"
#include "train/report/evaluation_sections.h"

namespace saccade {

// The predictions of one run: a batch of images at a time, then their list.
class Predictor {
 public:
  virtual ~Predictor() = default;
  // Pictures go into the workspace, and their names there are returned.
  virtual std::vector<std::string> predict(std::vector<LoadedInput> images, const Workspace& workspace,
                                           PictureNames& names) = 0;
  // The file of the list, those of its elements that nobody has taken yet, and what is printed at the end.
  virtual std::string list_name() const = 0;
  virtual std::string take_list() = 0;
  virtual std::string summary(size_t images) const = 0;
  // Whether each image has a picture.
  virtual bool has_pictures() const = 0;
};

// The data set that is evaluated; images that cannot be read are treated as in training. Throws InputError where neither --images nor a
// folder with the split is given.
DataPaths eval_paths(const EvalArguments& arguments, const LoadedModel& model);
// Of a classifier: leaves the images of these classes; all where no name is given. Throws InputError for one that the model does not have.
void only_classes(DataPaths& paths, const std::vector<std::string>& names, const LoadedModel& model,
                  const std::string& checkpoint);
// The model's classes that stand for a category: what formats that know classes by their names number them by.
std::vector<Category> categories_of(const LoadedModel& model);

struct TaskCommands {
  std::string name;  // the task's (train/config/task.h)
  std::string file;
  // One batch from bytes to results on the host, as eval and predict do it.
  std::function<void(const Batch&)> (*inference)(const LoadedModel& model, const EvaluatorOptions& options);
  // Both throw InputError for arguments that do not go with the task.
  Evaluation (*evaluate)(const EvalArguments& arguments, const LoadedModel& model,
                         const EvaluatorOptions& options);
  // The sections of a run's report about its model, and the figures as JSON.
  std::string (*report)(Page& page, const ReportOptions& options);
  // Refers to the arguments and the model.
  std::unique_ptr<Predictor> (*predictor)(const PredictArguments& arguments, const LoadedModel& model);
};

inline Registry<TaskCommands>& task_commands() {
  static Registry<TaskCommands> registry("task");
  return registry;
}

}  // namespace saccade
