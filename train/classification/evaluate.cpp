#include "train/classification/evaluate.h"

#include <vector>

#include "train/inference/runner.h"

namespace saccade {

Evaluation evaluate_classifier(Classifier& model, const std::shared_ptr<const ClassificationDataset>& images,
                               const ClassificationEvaluator& evaluator, const EvaluatorOptions& options) {
  ClassifierRunner runner(model, options.normalization);
  size_t classes = 0;
  // Rows of an image's logits and its class, of which there are far fewer than a float counts.
  const std::vector<float> rows =
      collect<float>(model, images, options, [&](const Batch& batch, std::vector<float>& all) {
        const std::vector<float> logits = runner.run(batch);
        classes = logits.size() / batch.targets.size();
        for (size_t n = 0; n < batch.targets.size(); ++n) {
          all.insert(all.end(), logits.data() + n * classes, logits.data() + (n + 1) * classes);
          all.push_back(static_cast<float>(batch.targets[n].label));
        }
      });
  if (!process_group().is_first()) return {};
  std::unique_ptr<ClassificationScore> score = evaluator.start();
  for (size_t at = 0; at < rows.size(); at += classes + 1)
    score->add(std::span<const float>(rows).subspan(at, classes), static_cast<int64_t>(rows[at + classes]));
  return score->result();
}

}  // namespace saccade
