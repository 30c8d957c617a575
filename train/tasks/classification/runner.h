// Runs a classifier on batches of bytes, for evaluation, prediction, the library and `bench`.
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
  // Returns the logits [N, K] as f32 numbers. Throws NotFinite if one of them is not finite.
  std::vector<float> run(const Batch& batch) { return start(batch)(); }
  // The same, without waiting: the returned function waits, and may be called after the next start().
  std::function<std::vector<float>()> start(const Batch& batch);

 private:
  Classifier& model_;
  kernels::ImageNormalization normalization_;
  RecordedForward<Var> forward_;
};

// Returns the softmax of the logits of one image.
std::vector<double> softmax(std::span<const float> logits);

// Returns all classes with their softmax, each as a box around the image, by falling score and then label.
class ClassifierInferencer : public Inferencer {
 public:
  explicit ClassifierInferencer(const LoadedModel& model);
  std::vector<std::vector<Instance>> run(const Batch& batch) override;

 private:
  ClassifierRunner runner_;
};

// Returns the first five results of ClassifierInferencer.
std::span<const Instance> best_classes(const std::vector<Instance>& classes);
// Returns these as the elements of a JSON list.
std::string best_classes_json(const std::vector<Instance>& classes, const LoadedModel& model);

}  // namespace saccade
