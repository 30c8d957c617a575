// What evaluating a detector and a classifier have in common.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "autograd/scope.h"
#include "core/distributed/process_group.h"
#include "core/kernels/normalize_image/normalize_image.h"
#include "data/evaluation/evaluators.h"
#include "data/loading/loader.h"
#include "layers/module.h"
#include "models/detector.h"
#include "train/config/options.h"

namespace saccade {

struct EvaluatorOptions {
  LoaderOptions loader;
  kernels::ImageNormalization normalization;
  Precision precision;
  PostprocessOptions post;  // of a detector, for as many classes as its logits have
  bool quiet = false;       // no progress line
};
// batch_size 0: the configuration's.
EvaluatorOptions evaluator_options(const Config& config, int64_t batch_size = 0);
// Lets a model find as many detections of an image as shall count, where those are given.
void find_as_many_as_count(Config& config, const MetricOptions& metric_options);
PostprocessOptions postprocess_options(const Config& config,
                                       int64_t classes = 0);  // classes 0: all of the logits

// While it lives: no gradients, evaluation mode, products in `precision`. The model's mode comes back after
// it.
class EvaluationMode {
 public:
  EvaluationMode(Module& model, const Precision& precision);
  ~EvaluationMode();
  EvaluationMode& operator=(EvaluationMode&&) = delete;

 private:
  NoGrad no_grad_;
  Module& model_;
  bool was_training_;
};

// All images in order, in evaluation mode, batch by batch, with a progress line unless options.quiet. Throws
// InputError for a broken image, and Interrupted when the training that it belongs to gets a signal.
void for_each_batch(Module& model, const std::shared_ptr<const Dataset>& images,
                    const EvaluatorOptions& options, const std::function<void(const Batch&)>& visit);

// As for_each_batch, with two batches in flight: start(batch) gives one to the model's device and returns
// what waits for it and looks at the results, which is called when the device has the next one.
void for_each_started_batch(Module& model, const std::shared_ptr<const Dataset>& images,
                            const EvaluatorOptions& options,
                            const std::function<std::function<void()>(const Batch&)>& start);

// As for_each_batch, with the batches shared by the processes that train together. What visit returns for
// each batch, in the order of the batches, comes back on rank 0; the others get nothing.
std::string collect_bytes(Module& model, const std::shared_ptr<const Dataset>& images,
                          const EvaluatorOptions& options,
                          const std::function<std::string(const Batch&)>& visit);
// What an evaluator says of what the model predicts for all images, batch by batch; where several processes
// share them, rank 0 knows it of all, and the others know nothing. start(batch, evaluator) is that of
// for_each_started_batch; what it returns adds to the evaluator.
Evaluation evaluate_batches(Module& model, const std::shared_ptr<const Dataset>& images,
                            const EvaluatorOptions& options, const EvaluatorSpec& spec,
                            const EvaluatorSpec::Options& evaluator_options,
                            const std::function<std::function<void()>(const Batch&, Evaluator&)>& start);

}  // namespace saccade
