// The parts of the task, each with a file of its own (training.cpp, evaluate.cpp, ...).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/evaluation/evaluators.h"
#include "data/pages/html.h"
#include "models/segmenter.h"
#include "train/checkpoints/load_model.h"
#include "train/inference/answerer.h"
#include "train/inference/arguments.h"
#include "train/inference/evaluation.h"
#include "train/inference/predictor.h"
#include "train/loop/training_task.h"
#include "train/report/evaluation_sections.h"

namespace saccade {

// Images with label maps, the model's cross entropy of their pixels, mean IoU.
std::unique_ptr<TrainingTask> train_segmenter(const Config& config);
// i64 [N, H, W] of a batch: the class, -1 for pixels of none and in the padding.
Tensor label_tensor(const Batch& batch, Device device);

// What the evaluator finds for all images. category_ids: of the model's classes; the images have them, and
// may have others, which are never found. The model is left in the mode that it was in. seen: gets each image
// with its labels, numbered as the images' classes, the true ones first, where it is there. Throws InputError
// for a broken image.
using SeenLabels = std::function<void(int64_t index, const LabelMap& truth, const LabelMap& found)>;
Evaluation evaluate_segmenter(Segmenter& model, const Config& config,
                              const std::vector<int64_t>& category_ids,
                              const std::shared_ptr<const Dataset>& images, const EvaluatorSpec& spec,
                              const EvaluatorOptions& options, bool per_class = false,
                              const SeenLabels& seen = {});
// Throws InputError for more classes than the figures take.
void check_label_classes(const Dataset& images);
Evaluation evaluate_labels(const EvalArguments& arguments, const LoadedModel& model,
                           const EvaluatorOptions& options);
// Throws InputError where flags are given that ask a model of label maps for boxes.
void refuse_figures(const FigureOptions& figures, const std::vector<std::string>& classes,
                    const std::string& model);

// Pictures with colours, the label maps, and the classes of each image as a list.
std::unique_ptr<Predictor> label_predictor(const PredictArguments& arguments, const LoadedModel& model);
// The same for images that come one at a time.
std::unique_ptr<Answerer> label_answerer(const LoadedModel& model);

// Figures, confusions, the best and the worst images.
std::string add_segmentation_sections(Page& page, const ReportOptions& options);

}  // namespace saccade
