// What evaluating a detector and a classifier have in common.
#pragma once

#include <functional>
#include <memory>

#include "autograd/scope.h"
#include "core/kernels/normalize_image/normalize_image.h"
#include "data/loading/loader.h"
#include "layers/module.h"
#include "train/config/options.h"

namespace saccade {

struct EvaluatorOptions {
  LoaderOptions loader;
  kernels::ImageNormalization normalization;
  Precision precision;
  int64_t max_detections = 100;  // per image
  bool quiet = false;            // no progress line
};
// batch_size 0: the configuration's.
EvaluatorOptions evaluator_options(const Config& config, int64_t batch_size = 0);

// While it lives: no gradients, evaluation mode, products in `precision`. The model's mode comes back after
// it.
class EvaluationMode {
 public:
  EvaluationMode(Module& model, const Precision& precision);
  ~EvaluationMode();
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  NoGrad no_grad_;
  Module& model_;
  bool was_training_;
};

// All images in order, in evaluation mode, batch by batch, with a progress line unless options.quiet. Throws InputError for a
// broken image, and Interrupted when the training that it belongs to gets a signal.
void for_each_batch(Module& model, const std::shared_ptr<const ImageSource>& images,
                    const EvaluatorOptions& options, const std::function<void(const Batch&)>& visit);

}  // namespace saccade
