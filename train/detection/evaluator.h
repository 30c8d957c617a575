// Runs a detector over images: batches in order, no gradients, boxes in pixels of the original images. Used
// by `eval`, `predict` and the evaluations during training.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/scope.h"
#include "core/kernels/normalize_image/normalize_image.h"
#include "data/evaluation/coco_eval.h"
#include "data/evaluation/detections.h"
#include "data/formats/coco_dataset.h"
#include "data/loading/loader.h"
#include "models/detector.h"
#include "train/config/config.h"
#include "train/config/options.h"

namespace saccade {

struct EvaluatorOptions {
  LoaderOptions loader;
  kernels::ImageNormalization normalization;
  Precision precision;
  int64_t max_detections = 100;  // per image
  bool softmax = false;          // how scores follow from logits, see models/detection/postprocess.h
  bool quiet = false;            // no progress line
};
// batch_size 0: the configuration's.
EvaluatorOptions evaluator_options(const Config& config, int64_t batch_size = 0);

// While it lives: no gradients, evaluation mode, products in `precision`. The model's mode comes back after
// it.
class EvaluationMode {
 public:
  EvaluationMode(Module& model, const Precision& precision);
  ~EvaluationMode();
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  NoGrad no_grad_;
  Module& model_;
  bool was_training_;
};

// All detections of the data set, by image in its order and falling score. category_ids [K] are those of the
// model's classes. The model is left in the mode (training or not) that it was in. Throws InputError for a
// broken image and Error when a prediction is not finite.
std::vector<Detection> detect(Detector& model, std::shared_ptr<const CocoDataset> dataset,
                              const std::vector<int64_t>& category_ids, const EvaluatorOptions& options);

// What the detections of a data set are compared with.
CocoGroundTruth ground_truth_of(const CocoDataset& dataset);

}  // namespace saccade
