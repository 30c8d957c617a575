#include "train/classification/class_evaluator.h"

#include <algorithm>
#include <cmath>

#include "autograd/scope.h"
#include "core/tensor/error.h"
#include "train/inference/model_input.h"
#include "train/logs/item_progress.h"

namespace saccade {

Metrics ClassMetrics::named() const { return {{"top1", share(top1)}, {"top5", share(top5)}, {"loss", loss}}; }

std::string ClassMetrics::table() const {
  return fmt::format(
      "top-1 accuracy  {:.4f}  ({} of {} images)\n"
      "top-5 accuracy  {:.4f}  ({} of {} images)\n"
      "cross entropy   {:.4f}\n",
      share(top1), top1, images, share(top5), top5, images, loss);
}

std::string ClassMetrics::json() const {
  return fmt::format("{{\"top1\": {}, \"top5\": {}, \"loss\": {}, \"images\": {}}}\n", share(top1),
                     share(top5), loss, images);
}

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

ClassMetrics evaluate_classes(Classifier& model, std::shared_ptr<const ImageFolder> images,
                              const EvaluatorOptions& options) {
  EvaluationMode mode(model, options.precision);
  DataLoader loader(images, options.loader);
  std::unique_ptr<ItemProgress> progress;
  if (!options.quiet) progress = std::make_unique<ItemProgress>("eval", images->num_images(), "images");
  ClassMetrics metrics;
  while (std::optional<Batch> batch = loader.next()) {
    std::vector<float> logits = classify(model, *batch, options.normalization);
    const size_t classes = logits.size() / batch->targets.size();
    for (size_t n = 0; n < batch->targets.size(); ++n) {
      const float* row = logits.data() + n * classes;
      const auto label = static_cast<size_t>(batch->targets[n].labels.at(0));
      int64_t better = 0;
      const double largest = *std::max_element(row, row + classes);
      double sum = 0;
      for (size_t k = 0; k < classes; ++k) {
        better += row[k] > row[label] || (row[k] == row[label] && k < label);
        sum += std::exp(row[k] - largest);
      }
      metrics.top1 += better < 1;
      metrics.top5 += better < 5;
      metrics.loss += largest + std::log(sum) - row[label];
      ++metrics.images;
    }
    if (progress) progress->update(metrics.images);
  }
  if (progress) progress->finish();
  metrics.loss /= static_cast<double>(metrics.images);
  return metrics;
}

}  // namespace saccade
