#include "train/classification/evaluate.h"

#include "train/inference/runner.h"

namespace saccade {

Evaluation evaluate_classifier(Classifier& model, const std::shared_ptr<const ClassificationDataset>& images,
                               const EvaluatorSpec& spec, const EvaluatorOptions& options) {
  ClassifierRunner runner(model, options.normalization);
  const auto evaluator =
      evaluate_batches(model, images, options, spec, {}, [&](const Batch& batch, Evaluator& to) {
        const std::vector<float> logits = runner.run(batch);
        const size_t classes = logits.size() / batch.targets.size();
        for (size_t n = 0; n < batch.targets.size(); ++n)
          to.add({.logits = std::span(logits).subspan(n * classes, classes),
                  .label = batch.targets[n].labels.at(0)});
      });
  return process_group().is_first() ? evaluator->result() : Evaluation{};
}

}  // namespace saccade
