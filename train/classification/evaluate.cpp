#include "train/classification/evaluate.h"

#include <cmath>

#include "autograd/scope.h"
#include "core/tensor/error.h"
#include "train/inference/model_input.h"
#include "train/logs/item_progress.h"

namespace saccade {

std::vector<float> classify(Classifier& model, const Batch& batch,
                            const kernels::ImageNormalization& normalization) {
  Tensor logits = model.forward(normalized_images(batch, normalization, model.device())).value();
  std::vector<float> values = logits.to(DType::kF32).to_vector<float>();
  const size_t classes = static_cast<size_t>(logits.dim(1));
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      fail("[classify] the prediction for {} is not finite", batch.targets[i / classes].file_name);
  return values;
}

Evaluation evaluate_classifier(Classifier& model, std::shared_ptr<const ClassificationDataset> images,
                               const ClassificationEvaluator& evaluator, const EvaluatorOptions& options) {
  EvaluationMode mode(model, options.precision);
  DataLoader loader(images, options.loader);
  std::unique_ptr<ItemProgress> progress;
  if (!options.quiet) progress = std::make_unique<ItemProgress>("eval", images->num_images(), "images");
  std::unique_ptr<ClassificationScore> score = evaluator.start();
  int64_t done = 0;
  while (std::optional<Batch> batch = loader.next()) {
    std::vector<float> logits = classify(model, *batch, options.normalization);
    const size_t classes = logits.size() / batch->targets.size();
    for (size_t n = 0; n < batch->targets.size(); ++n)
      score->add(std::span<const float>(logits).subspan(n * classes, classes),
                 batch->targets[n].labels.at(0));
    done += static_cast<int64_t>(batch->targets.size());
    if (progress) progress->update(done);
  }
  if (progress) progress->finish();
  return score->result();
}

}  // namespace saccade
