#include "train/tasks/detection/runner.h"

#include "train/config/options.h"
#include "train/inference/evaluation.h"
#include "train/inference/model_input.h"

namespace saccade {

std::shared_ptr<const DetectorOutput> DetectorRunner::run(const Batch& batch, bool record_sampling) {
  DetectorInput input = detector_input(batch, normalization_, model_.device());
  input.record_sampling = record_sampling;
  if (record_sampling) return call(model_, input);
  CacheKey key;
  for (const ImageSize& size : input.sizes) key.add(size.height, size.width);
  return forward_.run(key, input.images.value(), [&](const Tensor& images) {
    return call(model_, DetectorInput{.images = Var(images), .sizes = input.sizes});
  });
}

DetectorInferencer::DetectorInferencer(const LoadedModel& model)
    : model_(model.as<Detector>()),
      runner_(model_, image_normalization(model.config)),
      post_(postprocess_options(model.config, std::ssize(model.class_names))) {}

std::vector<std::vector<Instance>> DetectorInferencer::run(const Batch& batch) {
  std::vector<std::vector<Instance>> found;
  for (const auto& image : model_.postprocess(*runner_.run(batch), batch.targets, post_))
    found.emplace_back(image.begin(), image.end());
  return found;
}

}  // namespace saccade
