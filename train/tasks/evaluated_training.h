// The common part of trainings whose models an evaluator judges.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/kernels/normalize_image/normalize_image.h"
#include "data/evaluation/evaluators.h"
#include "train/config/options.h"
#include "train/inference/evaluation.h"
#include "train/inference/largest_batch.h"
#include "train/loop/training_task.h"

namespace saccade {

class EvaluatedTraining : public ImageTrainingTask {
 public:
  std::vector<std::string> primary_metrics() const override {
    return val_set_ ? evaluator_.primary : std::vector<std::string>();
  }
  std::optional<Batch> largest_batch() const override {
    std::vector<ImageSize> sizes;
    for (const ImageInfo& image : train_set_->ground_truth().images)
      sizes.push_back({image.height, image.width});
    return saccade::largest_batch(config_, sizes, most_objects());
  }

 protected:
  explicit EvaluatedTraining(const Config& config)
      : ImageTrainingTask(config),
        normalization_(image_normalization(config)),
        evaluation_(evaluator_options(config)),
        evaluator_(evaluator_of(config)) {}
  // The largest number of objects in an image.
  virtual int64_t most_objects() const { return 0; }
  // Returns the metrics of an evaluation, followed by those of each class.
  static Metrics with_classes(Evaluation evaluation) {
    std::ranges::copy(evaluation.of_classes, std::back_inserter(evaluation.metrics));
    return evaluation.metrics;
  }

  kernels::ImageNormalization normalization_;
  EvaluatorOptions evaluation_;
  const EvaluatorSpec& evaluator_;
};

}  // namespace saccade
