// Models on batches of bytes: what evaluation, prediction, the library and `bench` have in common. Called in evaluation mode, without
// gradients; on a CPU from any number of threads.
#pragma once

#include <memory>
#include <vector>

#include "core/kernels/normalize_image/normalize_image.h"
#include "data/loading/batch.h"
#include "models/classifier.h"
#include "models/detector.h"
#include "train/inference/recorded_forward.h"

namespace saccade {

class DetectorRunner {
 public:
  DetectorRunner(Detector& model, const kernels::ImageNormalization& normalization)
      : model_(model), normalization_(normalization) {}
  // To be used before the next call, which may overwrite it.
  std::shared_ptr<const DetectorOutput> run(const Batch& batch, bool record_sampling = false);

 private:
  Detector& model_;
  kernels::ImageNormalization normalization_;
  RecordedForward<std::shared_ptr<const DetectorOutput>> forward_;
};

class ClassifierRunner {
 public:
  ClassifierRunner(Classifier& model, const kernels::ImageNormalization& normalization)
      : model_(model), normalization_(normalization) {}
  // Logits [N, K] as f32 numbers. Throws NotFinite when one of them is not finite.
  std::vector<float> run(const Batch& batch);

 private:
  Classifier& model_;
  kernels::ImageNormalization normalization_;
  RecordedForward<Var> forward_;
};

}  // namespace saccade
