#include "train/inference/runner.h"

#include <cmath>

#include "models/not_finite.h"
#include "train/inference/model_input.h"

namespace saccade {

std::shared_ptr<const DetectorOutput> DetectorRunner::run(const Batch& batch, bool record_sampling) {
  DetectorInput input = detector_input(batch, normalization_, model_.device());
  input.record_sampling = record_sampling;
  if (record_sampling) return model_.forward(input);
  CacheKey key;
  for (const ImageSize& size : input.sizes) key.add(size.height, size.width);
  return forward_.run(key, input.images.value(), [&](const Tensor& images) {
    return model_.forward({.images = Var(images), .sizes = input.sizes});
  });
}

std::vector<float> ClassifierRunner::run(const Batch& batch) {
  const Tensor images = normalized_images(batch, normalization_, model_.device()).value();
  const Tensor logits =
      forward_.run({}, images, [&](const Tensor& x) { return model_.forward(Var(x)); }).value();
  std::vector<float> values = logits.to(DType::kF32).to_vector<float>();
  const size_t classes = static_cast<size_t>(logits.dim(1));
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      throw NotFinite(fmt::format("image {} ({}): the predicted score of class {} is not finite",
                                  batch.targets[i / classes].image_id, batch.targets[i / classes].file_name,
                                  i % classes));
  return values;
}

}  // namespace saccade
