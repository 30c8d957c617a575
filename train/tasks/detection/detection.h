// Shared by the files of the task.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/evaluation/evaluators.h"
#include "data/pages/html.h"
#include "train/checkpoints/load_model.h"
#include "train/config/task.h"
#include "train/inference/answerer.h"
#include "train/inference/arguments.h"
#include "train/inference/evaluation.h"
#include "train/inference/predictor.h"
#include "train/loop/training_task.h"
#include "train/report/evaluation_sections.h"

namespace saccade {

// The methods of the task that are in files of their own (training.cpp, evaluate.cpp, ...).
class DetectionParts : public Task {
 public:
  // Uses the data sets, the detector's own loss and the evaluator of a configuration.
  std::unique_ptr<TrainingTask> training(const Config& config) const override;
  std::unique_ptr<Answerer> answerer(const LoadedModel& model) const override;
  Evaluation evaluate(const EvalArguments& arguments, const LoadedModel& model,
                      const EvaluatorOptions& options) const override;
  // Pictures with boxes, and the detections as a list.
  std::unique_ptr<Predictor> predictor(const PredictArguments& arguments,
                                       const LoadedModel& model) const override;
  // Precision, recall and confusions, and pictures of the detections.
  std::string report(Page& page, const ReportOptions& options) const override;
};

// The classes of other projects' weights: those of a data set, or those that the number of outputs and their
// names imply.
Classes classes_of_annotations(Config& config, const std::string& annotations);
// Throws InputError naming the first object that the model cannot find because its label is the background's.
void check_background(const Detector& model, const Dataset& set);
Classes classes_of_detector(Config& config, const std::vector<std::string>& labels,
                            std::vector<std::string>& notes);

}  // namespace saccade
