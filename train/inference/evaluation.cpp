#include "train/inference/evaluation.h"

namespace saccade {

EvaluatorOptions evaluator_options(const Config& config, int64_t batch_size) {
  EvaluatorOptions options;
  options.loader = eval_loader(config, batch_size);
  options.normalization = image_normalization(config);
  options.precision = precision_of(config);
  options.max_detections = config.eval().max_detections();
  return options;
}

EvaluationMode::EvaluationMode(Module& model, const Precision& precision)
    : model_(model), was_training_(model.training()) {
  model.set_training(false);
  set_precision(precision);
}

EvaluationMode::~EvaluationMode() { model_.set_training(was_training_); }

}  // namespace saccade
