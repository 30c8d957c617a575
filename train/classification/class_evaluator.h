// Runs a classifier over a folder of images: top-1 and top-5 accuracy and the mean cross entropy.
#pragma once

#include <memory>
#include <string>

#include "core/types/metrics.h"
#include "data/formats/image_folder.h"
#include "models/classifier.h"
#include "train/inference/evaluation.h"

namespace saccade {

struct ClassMetrics {
  int64_t images = 0;
  int64_t top1 = 0, top5 = 0;  // images whose class is the best one, among the best five
  double loss = 0;             // mean cross entropy, without label smoothing
  double share(int64_t hits) const { return static_cast<double>(hits) / static_cast<double>(images); }
  Metrics named() const;      // top1, top5 (shares of the images), loss
  std::string table() const;  // the same as three lines for the console
  std::string json() const;
};

// Logits [N, K] as f32 numbers. Throws Error when one of them is not finite.
std::vector<float> classify(Classifier& model, const Batch& batch,
                            const kernels::ImageNormalization& normalization);

// All images once. An image counts as a hit in the best k when fewer than k classes have a larger logit than
// its own, or an equal one and a smaller index. The model is left in the mode (training or not) that it was
// in. Throws InputError for a broken image.
ClassMetrics evaluate_classes(Classifier& model, std::shared_ptr<const ImageFolder> images,
                              const EvaluatorOptions& options);

}  // namespace saccade
