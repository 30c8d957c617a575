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

// Returns all detections of the data set, in the order of its images and by falling score (with several
// processes only on rank 0). category_ids [K] are those of the model's classes. Restores the model's mode
// (training or not). Throws InputError for a broken image, and NotFinite if a prediction is not finite.
std::vector<Detection> detect(Detector& model, const std::shared_ptr<const Dataset>& dataset,
                              const std::vector<int64_t>& category_ids, const EvaluatorOptions& options);

// Returns the set with these classes only, or the whole set if no name is given, and reduces the detections
// to them; prints what is left out. `paths`: of the set. Throws InputError for an unknown name.
std::shared_ptr<const Dataset> keep_classes(const std::shared_ptr<const Dataset>& dataset,
                                            const DataPaths& paths, const std::vector<std::string>& names,
                                            std::vector<Detection>& detections);

// Returns what is asked for; by default metrics of boxes, and of masks too if the model predicts them.
MetricOptions metric_options_of(const Config& config, MetricOptions asked = {});
// Throws InputError if metrics of masks are asked for and the model predicts none.
void need_predicted_masks(const MetricOptions& metric_options, const LoadedModel& model,
                          const std::string& checkpoint);
// Returns the set with the masks that its metrics need.
DataPaths with_masks_of(const MetricOptions& metric_options, DataPaths paths);
// If objects, or given detections, have no masks: throws InputError if metrics of masks are asked for;
// metrics that would cover both become those of boxes, and a line in notes says why.
void settle_masks(MetricOptions& metric_options, const GroundTruth& truth, const std::string& name,
                  std::vector<std::string>& notes);
void settle_masks(MetricOptions& metric_options, const Dataset& set, std::vector<std::string>& notes);
void settle_masks(MetricOptions& metric_options, std::span<const Detection> detections,
                  const std::string& source, std::vector<std::string>& notes);

}  // namespace saccade
