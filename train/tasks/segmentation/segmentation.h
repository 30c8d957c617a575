// Shared by the files of the task.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/evaluation/evaluators.h"
#include "data/pages/html.h"
#include "models/segmenter.h"
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
class SegmentationParts : public Task {
 public:
  // Images with label maps, cross entropy of the model over their pixels, and mean IoU.
  std::unique_ptr<TrainingTask> training(const Config& config) const override;
  std::unique_ptr<Answerer> answerer(const LoadedModel& model) const override;
  Evaluation evaluate(const EvalArguments& arguments, const LoadedModel& model,
                      const EvaluatorOptions& options) const override;
  // Coloured pictures, the label maps, and the classes of each image as a list.
  std::unique_ptr<Predictor> predictor(const PredictArguments& arguments,
                                       const LoadedModel& model) const override;
  // Metrics, confusions, the best and the worst images.
  std::string report(Page& page, const ReportOptions& options) const override;
};

// Returns the classes of a batch's pixels, i64 [N, H, W]; -1 for pixels without a class and in the padding.
Tensor label_tensor(const Batch& batch, Device device);

// Returns the evaluator's result for all images. category_ids: of the model's classes; the images have these,
// and may have others, which are never found. Restores the model's mode. seen, if given, receives each image
// with its labels, the true ones first, numbered as the classes of the images. Throws InputError for a broken
// image.
using SeenLabels = std::function<void(int64_t index, const LabelMap& truth, const LabelMap& found)>;
Evaluation evaluate_segmenter(Segmenter& model, const Config& config,
                              const std::vector<int64_t>& category_ids,
                              const std::shared_ptr<const Dataset>& images, const EvaluatorSpec& spec,
                              const EvaluatorOptions& options, bool per_class = false,
                              const SeenLabels& seen = {});
// Throws InputError if there are more classes than the metrics take, or if no pixel of any image has one.
void check_label_classes(const Dataset& images);
// Throws InputError for flags that ask a model of label maps for boxes.
void refuse_metric_options(const MetricOptions& metric_options, const std::vector<std::string>& classes,
                           const std::string& model);

}  // namespace saccade
