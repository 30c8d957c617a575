// Shared by the files of the task.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "data/evaluation/evaluators.h"
#include "data/formats/data_format.h"
#include "data/loading/batch.h"
#include "data/pages/html.h"
#include "models/classifier.h"
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
class ClassificationParts : public Task {
 public:
  // Image folders, cross entropy with soft targets (label smoothing, mixup, CutMix), and top-1 and top-5
  // accuracy.
  std::unique_ptr<TrainingTask> training(const Config& config) const override;
  std::unique_ptr<Answerer> answerer(const LoadedModel& model) const override;
  Evaluation evaluate(const EvalArguments& arguments, const LoadedModel& model,
                      const EvaluatorOptions& options) const override;
  // The best classes of each image, printed and as a list.
  std::unique_ptr<Predictor> predictor(const PredictArguments& arguments,
                                       const LoadedModel& model) const override;
  // Accuracy and confusions, and the images with the worst errors.
  std::string report(Page& page, const ReportOptions& options) const override;
};

// The sum over the batch of the cross entropy of logits [N, K] with the targets
//   lambda * smooth(label_n) + (1 - lambda) * smooth(label_{N-1-n}),
// smooth(c) = (1 - smoothing) * onehot(c) + smoothing / K.
Var soft_target_loss(const Var& logits, const Batch& batch, double smoothing);

// Returns the evaluator's result for all images. Restores the model's mode (training or not). Throws
// InputError for a broken image.
Evaluation evaluate_classifier(Classifier& model, const std::shared_ptr<const Dataset>& images,
                               const EvaluatorSpec& spec, const EvaluatorOptions& options);
// Sets the model's classes, and keeps only the images of the named ones; all if no name is given. Throws
// InputError for a name that the model does not have.
void only_classes(DataPaths& paths, const std::vector<std::string>& names, const LoadedModel& model,
                  const std::string& checkpoint);

}  // namespace saccade
