// Runs a model of label maps on batches of bytes, for evaluation, prediction, the library and `bench`.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/kernels/normalize_image/normalize_image.h"
#include "core/runtime/host_copy.h"
#include "models/segmenter.h"
#include "train/checkpoints/load_model.h"
#include "train/inference/answerer.h"
#include "train/inference/recorded_forward.h"
#include "train/tasks/segmentation/cell_scores.h"

namespace saccade {

class SegmenterRunner {
 public:
  // classes: how many of the model's outputs, from the first on, stand for a class.
  SegmenterRunner(Segmenter& model, const Config& config, int64_t classes);
  // The configurations of its views of an image, one for each of eval.scales: images are resized by each.
  const std::vector<Config>& views() const { return views_; }
  // Returns the labels of images, in their original size. views: the same images resized by each of views().
  // Throws NotFinite.
  std::vector<LabelMap> run(std::span<const Batch> views) { return start({views.begin(), views.end()})(); }
  // The same, without waiting: the returned function waits, and may be called after the next start().
  std::function<std::vector<LabelMap>()> start(std::vector<Batch> views);
  // The same with the confidence in each class.
  struct Scored {
    LabelMap labels;
    std::vector<double> confidence;  // [classes]
  };
  std::vector<Scored> run_scored(std::span<const Batch> views);

 private:
  struct Logits {
    HostCopy values;  // [N, height, width, channels]
    int64_t height = 0, width = 0, channels = 0;
  };
  Logits forward(const Batch& batch);
  // The cells of one image. Throws NotFinite.
  CellScores cells(const Logits& logits, const Batch& batch, size_t n, bool is_mirrored) const;
  bool is_simple() const { return views_.size() == 1 && window_ == 0 && !flips_; }
  void look_through_windows(const Batch& batch, size_t n, PixelScores& image);

  Segmenter& model_;
  kernels::ImageNormalization normalization_;
  std::vector<Config> views_;
  int64_t classes_, window_, stride_;
  int64_t windows_at_a_time_;
  bool flips_;
  RecordedForward<Var> forward_;
};

// Returns each class that occurs as an instance with its mask and the box around it; the score is the mean of
// its probability there.
class SegmenterInferencer : public Inferencer {
 public:
  explicit SegmenterInferencer(const LoadedModel& model);
  std::vector<std::vector<Instance>> run(const Batch& batch) override;

 private:
  SegmenterRunner runner_;
};

}  // namespace saccade
