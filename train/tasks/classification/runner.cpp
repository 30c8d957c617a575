#include "train/tasks/classification/runner.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "models/not_finite.h"
#include "train/config/options.h"
#include "train/inference/model_input.h"

namespace saccade {

std::vector<float> ClassifierRunner::run(const Batch& batch) {
  const Tensor images = normalized_images(batch, normalization_, model_.device()).value();
  const Tensor logits =
      forward_.run({}, images, [&](const Tensor& x) { return call(model_, Var(x)); }).value();
  std::vector<float> values = logits.to(DType::kF32).to_vector<float>();
  const size_t classes = static_cast<size_t>(logits.dim(1));
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      throw NotFinite(fmt::format("image {} ({}): the predicted score of class {} is not finite",
                                  batch.targets[i / classes].image_id, batch.targets[i / classes].file_name,
                                  i % classes));
  return values;
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
    const float* row = &logits[n * K];
    const double largest = *std::max_element(row, row + K);
    auto& classes = found.emplace_back();
    double sum = 0;
    for (size_t k = 0; k < K; ++k) {
      classes.push_back({.label = static_cast<int64_t>(k),
                         .box = image,
                         .area = image.area(),
                         .score = std::exp(row[k] - largest)});
      sum += classes.back().score;
    }
    for (Instance& c : classes) c.score /= sum;
    std::ranges::stable_sort(classes, std::ranges::greater{}, &Instance::score);
  }
  return found;
}

}  // namespace saccade
