#include "train/inference/evaluation.h"

#include "core/runtime/interrupt.h"
#include "train/logs/progress.h"

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

void for_each_batch(Module& model, const std::shared_ptr<const ImageSource>& images,
                    const EvaluatorOptions& options, const std::function<void(const Batch&)>& visit) {
  EvaluationMode mode(model, options.precision);
  DataLoader loader(images, options.loader);
  ProgressCounter progress("eval", images->num_images(), "images", options.quiet);
  while (std::optional<Batch> batch = loader.next()) {
    check_interrupt();
    for (const std::string& line : batch->skipped) progress.message(line);
    if (!batch->targets.empty()) visit(*batch);
    progress.add(static_cast<int64_t>(batch->targets.size()));
  }
  progress.finish();
}

}  // namespace saccade
