#include "train/inference/evaluation.h"

#include "train/logs/item_progress.h"

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

void for_each_batch(Module& model, std::shared_ptr<const ImageSource> images, const EvaluatorOptions& options,
                    const std::function<void(const Batch&)>& visit) {
  EvaluationMode mode(model, options.precision);
  DataLoader loader(images, options.loader);
  std::unique_ptr<ItemProgress> progress;
  if (!options.quiet) progress = std::make_unique<ItemProgress>("eval", images->num_images(), "images");
  int64_t done = 0;
  while (std::optional<Batch> batch = loader.next()) {
    visit(*batch);
    done += static_cast<int64_t>(batch->targets.size());
    if (progress) progress->update(done);
  }
  if (progress) progress->finish();
}

}  // namespace saccade
