// Training of a classifier.
#include "train/tasks/classification/classification.h"

#include <algorithm>

#include "autograd/ops.h"
#include "core/runtime/host_copy.h"
#include "core/tensor/error.h"
#include "data/formats/data_format.h"
#include "data/formats/splits.h"
#include "models/build.h"
#include "train/checkpoints/load_model.h"
#include "train/inference/model_input.h"
#include "train/tasks/evaluated_training.h"

namespace saccade {
namespace {

std::vector<int64_t> labels_of(const Batch& batch) {
  std::vector<int64_t> labels;
  for (const Target& t : batch.targets) labels.push_back(t.label);
  return labels;
}

// The labels of the images that each image was mixed with.
std::vector<int64_t> partner_labels_of(const Batch& batch) {
  if (!batch.partner_labels.empty()) return batch.partner_labels;
  std::vector<int64_t> labels = labels_of(batch);
  std::reverse(labels.begin(), labels.end());
  return labels;
}

// Counts images whose best class is their own, or for mixed ones that of the larger part.
double hits(const HostCopy& logits, const std::vector<int64_t>& labels) {
  const float* values = logits.data<float>();
  const size_t classes = static_cast<size_t>(logits.numel()) / labels.size();
  double count = 0;
  for (size_t n = 0; n < labels.size(); ++n) {
    const float* row = values + n * classes;
    count += std::max_element(row, row + classes) - row == labels[n];
  }
  return count;
}

class ClassifierTraining final : public EvaluatedTraining {
 public:
  explicit ClassifierTraining(const Config& config)
      : EvaluatedTraining(config), smoothing_(config.criterion().label_smoothing()) {
    const int64_t classes = train_set_->num_classes();
    if (int64_t wanted = config.model().num_classes(); wanted > 0 && wanted != classes)
      fail_input("model.num_classes: {} for {} class folders in {}, expected the same number, or 0", wanted,
                 classes, train_set_->name());
    model_ = build_as<Classifier>(config, classes);
  }

  Module& model() override { return *model_; }
  std::vector<int64_t> category_ids() const override { return {}; }
  TrainingLoss loss(const Batch& batch, const StepImages& step,
                    const std::function<void()>& forward_done) override {
    Var logits = call(*model_, normalized_images(batch, normalization_, model_->device()));
    forward_done();
    const double images = std::max(1.0, static_cast<double>(step.images()));
    Var total = mul_scalar(soft_target_loss(logits, batch, smoothing_), 1 / images);
    auto metrics = [scores = HostCopy(logits.value().to(DType::kF32)),
                    labels =
                        batch.lambda < 0.5 ? partner_labels_of(batch) : labels_of(batch)]() -> MeanMetrics {
      // A process may have no part of the batch.
      return {{"top1", labels.empty() ? 0 : hits(scores, labels), static_cast<double>(labels.size())}};
    };
    return {total, {{"class", total.value()}}, metrics};
  }

  Metrics evaluate(bool quiet) override {
    evaluation_.quiet = quiet;
    return evaluate_classifier(*model_, val_set_, evaluator_, evaluation_).metrics;
  }

 private:
  double smoothing_;
  std::shared_ptr<Classifier> model_;
};

}  // namespace

Var soft_target_loss(const Var& logits, const Batch& batch, double smoothing) {
  std::vector<int64_t> labels = labels_of(batch);
  auto towards = [&] {
    auto N = static_cast<int64_t>(labels.size());
    return cross_entropy(logits, Tensor::from<int64_t>({N}, labels, logits.device()), {}, smoothing);
  };
  Var own = towards();
  if (batch.lambda == 1) return own;
  labels = partner_labels_of(batch);
  return add(mul_scalar(own, batch.lambda), mul_scalar(towards(), 1 - batch.lambda));
}

std::unique_ptr<TrainingTask> ClassificationParts::training(const Config& config) const {
  return std::make_unique<ClassifierTraining>(config);
}

}  // namespace saccade
