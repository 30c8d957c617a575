// What the evaluations of all tasks have in common.
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
  bool quiet = false;       // shows no progress line
};
// If batch_size is 0, the configuration's is used.
EvaluatorOptions evaluator_options(const Config& config, int64_t batch_size = 0);
// Lets a model find as many detections per image as the metrics count, if metric_options says how many.
void find_as_many_as_count(Config& config, const MetricOptions& metric_options);
PostprocessOptions postprocess_options(const Config& config,
                                       int64_t classes = 0);  // 0: all classes of the logits

// During its lifetime: no gradients, evaluation mode, and products in `precision`. Then restores the model's
// mode.
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

// Visits all images in order, in evaluation mode, batch by batch, with a progress line unless options.quiet.
// Throws InputError for a broken image, and Interrupted if the surrounding training gets a signal.
void for_each_batch(Module& model, const std::shared_ptr<const Dataset>& images,
                    const EvaluatorOptions& options, const std::function<void(const Batch&)>& visit);

// Like for_each_batch, but with two batches in flight: start(batch) hands one to the model's device and
// returns a function that waits for the results and processes them; it is called when the device has the next
// batch.
void for_each_started_batch(Module& model, const std::shared_ptr<const Dataset>& images,
                            const EvaluatorOptions& options,
                            const std::function<std::function<void()>(const Batch&)>& start);

// Like for_each_batch, but the batches are shared among the processes that train together. Rank 0 gets what
// visit returns for each batch, in the order of the batches; the others get nothing.
std::string collect_bytes(Module& model, const std::shared_ptr<const Dataset>& images,
                          const EvaluatorOptions& options,
                          const std::function<std::string(const Batch&)>& visit);
// Returns an evaluator's result for the model's predictions on all images, batch by batch. If several
// processes share the images, rank 0 gets the result for all of them, the others an empty one. start(batch,
// evaluator) is that of for_each_started_batch; the function that it returns adds to the evaluator.
Evaluation evaluate_batches(Module& model, const std::shared_ptr<const Dataset>& images,
                            const EvaluatorOptions& options, const EvaluatorSpec& spec,
                            const EvaluatorSpec::Options& evaluator_options,
                            const std::function<std::function<void()>(const Batch&, Evaluator&)>& start);

}  // namespace saccade
