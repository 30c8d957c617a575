// Runs a detector over images: batches in order, no gradients, boxes in pixels of the original images. Used
// by `eval`, `predict` and the evaluations during training.
#pragma once

#include <memory>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/formats/detection_dataset.h"
#include "models/detector.h"
#include "train/inference/evaluation.h"

namespace saccade {

// All detections of the data set, by image in its order and falling score (of several processes on rank 0 alone). category_ids [K] are those of the
// model's classes. The model is left in the mode (training or not) that it was in. Throws InputError for a
// broken image and NotFinite when a prediction is none.
std::vector<Detection> detect(Detector& model, const std::shared_ptr<const DetectionDataset>& dataset,
                              const std::vector<int64_t>& category_ids, const EvaluatorOptions& options);

}  // namespace saccade
