#include "train/tasks/classification/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/formats/json.h"
#include "core/runtime/host_copy.h"
#include "models/not_finite.h"
#include "train/config/options.h"
#include "train/inference/model_input.h"

namespace saccade {

std::function<std::vector<float>()> ClassifierRunner::start(const Batch& batch) {
  const Tensor images = normalized_images(batch, normalization_, model_.device()).value();
  const Tensor logits =
      forward_.run({}, images, [&](const Tensor& x) { return call(model_, Var(x)); }).value();
  const size_t classes = static_cast<size_t>(logits.dim(1));
  return [copy = HostCopy(logits.to(DType::kF32)), classes, targets = batch.targets] {
    const float* first = copy.data<float>();
    std::vector<float> values(first, first + copy.numel());
    for (size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(values[i]))
        throw NotFinite(fmt::format("image {} ({}): the predicted score of class {} is not finite",
                                    targets[i / classes].image_id, targets[i / classes].file_name,
                                    i % classes));
    return values;
  };
}

std::vector<double> softmax(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> scores;
  double sum = 0;
  for (const float logit : logits) sum += scores.emplace_back(std::exp(logit - largest));
  for (double& score : scores) score /= sum;
  return scores;
}

ClassifierInferencer::ClassifierInferencer(const LoadedModel& model)
    : runner_(model.as<Classifier>(), image_normalization(model.config)) {}

std::vector<std::vector<Instance>> ClassifierInferencer::run(const Batch& batch) {
  const std::vector<float> logits = runner_.run(batch);
  std::vector<std::vector<Instance>> found;
  const size_t K = logits.size() / batch.targets.size();
  for (size_t n = 0; n < batch.targets.size(); ++n) {
    const Box image{0, 0, static_cast<double>(batch.targets[n].original_width),
                    static_cast<double>(batch.targets[n].original_height)};
    auto& classes = found.emplace_back();
    for (const double score : softmax(std::span(logits).subspan(n * K, K)))
      classes.push_back({.label = std::ssize(classes), .box = image, .area = image.area(), .score = score});
    std::ranges::stable_sort(classes, std::ranges::greater{}, &Instance::score);
  }
  return found;
}

std::span<const Instance> best_classes(const std::vector<Instance>& classes) {
  constexpr size_t kShownClasses = 5;
  return std::span(classes).first(std::min(classes.size(), kShownClasses));
}

std::string best_classes_json(const std::vector<Instance>& classes, const LoadedModel& model) {
  std::string list;
  for (const Instance& c : best_classes(classes))
    list += fmt::format("{}{{\"class\": {}, \"score\": {}}}", list.empty() ? "" : ", ",
                        json_quote(model.class_names.at(static_cast<size_t>(c.label))), c.score);
  return list;
}

}  // namespace saccade
