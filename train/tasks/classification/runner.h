// A classifier on batches of bytes: what evaluation, prediction, the library and `bench` have in common.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/kernels/normalize_image/normalize_image.h"
#include "core/types/instance.h"
#include "models/classifier.h"
#include "train/checkpoints/load_model.h"
#include "train/inference/answerer.h"
#include "train/inference/recorded_forward.h"

namespace saccade {

class ClassifierRunner {
 public:
  ClassifierRunner(Classifier& model, const kernels::ImageNormalization& normalization)
      : model_(model), normalization_(normalization) {}
  // Logits [N, K] as f32 numbers. Throws NotFinite when one of them is not finite.
  std::vector<float> run(const Batch& batch) { return start(batch)(); }
  // The same, to be waited for by calling what comes back, which may be after the next start().
  std::function<std::vector<float>()> start(const Batch& batch);

 private:
  Classifier& model_;
  kernels::ImageNormalization normalization_;
  RecordedForward<Var> forward_;
};

// Of the logits of one image.
std::vector<double> softmax(std::span<const float> logits);

// All classes with their softmax, each as a box around the image; of equal ones the smaller label first.
class ClassifierInferencer : public Inferencer {
 public:
  explicit ClassifierInferencer(const LoadedModel& model);
  std::vector<std::vector<Instance>> run(const Batch& batch) override;

 private:
  ClassifierRunner runner_;
};

// The first five of what ClassifierInferencer finds.
std::span<const Instance> best_classes(const std::vector<Instance>& classes);
// They as the elements of a JSON list.
std::string best_classes_json(const std::vector<Instance>& classes, const LoadedModel& model);

}  // namespace saccade
