// Runs a detector on batches of bytes, for evaluation, prediction, the library and `bench`.
#pragma once

#include <memory>
#include <vector>

#include "core/kernels/normalize_image/normalize_image.h"
#include "models/detector.h"
#include "train/checkpoints/load_model.h"
#include "train/inference/answerer.h"
#include "train/inference/recorded_forward.h"

namespace saccade {

class DetectorRunner {
 public:
  DetectorRunner(Detector& model, const kernels::ImageNormalization& normalization)
      : model_(model), normalization_(normalization) {}
  // The result must be used before the next call, which may overwrite it.
  std::shared_ptr<const DetectorOutput> run(const Batch& batch, bool record_sampling = false);

 private:
  Detector& model_;
  kernels::ImageNormalization normalization_;
  RecordedForward<std::shared_ptr<const DetectorOutput>> forward_;
};

// Uses the post-processing that the model's configuration asks for.
class DetectorInferencer : public Inferencer {
 public:
  explicit DetectorInferencer(const LoadedModel& model);
  std::vector<std::vector<Instance>> run(const Batch& batch) override;

 private:
  Detector& model_;
  DetectorRunner runner_;
  PostprocessOptions post_;
};

}  // namespace saccade
