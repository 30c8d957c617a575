// Runs a detector over images: batches in order, no gradients, boxes in pixels of the original images. Used
// by `eval`, `predict` and the evaluations during training.
#pragma once

#include <memory>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/formats/data_format.h"
#include "models/detector.h"
#include "train/checkpoints/load_model.h"
#include "train/inference/evaluation.h"

namespace saccade {

// All detections of the data set, by image in its order and falling score (of several processes on rank 0
// alone). category_ids [K] are those of the model's classes. The model is left in the mode (training or not)
// that it was in. Throws InputError for a broken image and NotFinite when a prediction is none.
std::vector<Detection> detect(Detector& model, const std::shared_ptr<const Dataset>& dataset,
                              const std::vector<int64_t>& category_ids, const EvaluatorOptions& options);

// The set with these classes only, and of the detections those of them; what is left out is printed. All of
// it where no name is given. `paths`: of the set. Throws InputError for an unknown name.
std::shared_ptr<const Dataset> keep_classes(const std::shared_ptr<const Dataset>& dataset,
                                            const DataPaths& paths, const std::vector<std::string>& names,
                                            std::vector<Detection>& detections);

// What is asked for; where nothing is, of boxes, and of masks too where the model predicts some.
MetricOptions metric_options_of(const Config& config, MetricOptions asked = {});
// Throws InputError where metrics of masks are asked for of a model that predicts none.
void need_predicted_masks(const MetricOptions& metric_options, const LoadedModel& model,
                          const std::string& checkpoint);
// The set with the masks that its metrics need.
DataPaths with_masks_of(const MetricOptions& metric_options, DataPaths paths);
// Where objects have no masks, or detections that are given: throws InputError when masks are asked for;
// metrics that would be of both become those of boxes, and a line is added to notes that says why.
void settle_masks(MetricOptions& metric_options, const GroundTruth& truth, const std::string& name,
                  std::vector<std::string>& notes);
void settle_masks(MetricOptions& metric_options, const Dataset& set, std::vector<std::string>& notes);
void settle_masks(MetricOptions& metric_options, std::span<const Detection> detections,
                  const std::string& source, std::vector<std::string>& notes);

}  // namespace saccade
