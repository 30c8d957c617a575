#include "train/inference/evaluation.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/runtime/interrupt.h"
#include "core/tensor/error.h"
#include "data/loading/bad_image_lines.h"
#include "train/logs/progress.h"

namespace saccade {

EvaluatorOptions evaluator_options(const Config& config, int64_t batch_size) {
  EvaluatorOptions options;
  options.loader = eval_loader(config, batch_size);
  options.normalization = image_normalization(config);
  options.precision = precision_of(config);
  options.post = postprocess_options(config);
  return options;
}

void find_as_many_as_count(Config& config, const MetricOptions& metric_options) {
  if (!metric_options.max_detections) return;
  const int64_t found = config.eval().max_detections();
  config.mutable_eval()->set_max_detections(
      static_cast<int32_t>(std::max(*metric_options.max_detections, found)));
}

PostprocessOptions postprocess_options(const Config& config, int64_t classes) {
  return {.max_detections = config.eval().max_detections(), .classes = classes, .nms = config.eval().nms()};
}

EvaluationMode::EvaluationMode(Module& model, const Precision& precision)
    : model_(model), was_training_(model.training()) {
  model.set_training(false);
  set_precision(precision);
}

EvaluationMode::~EvaluationMode() { model_.set_training(was_training_); }

void for_each_batch(Module& model, const std::shared_ptr<const Dataset>& images,
                    const EvaluatorOptions& options, const std::function<void(const Batch&)>& visit) {
  EvaluationMode mode(model, options.precision);
  DataLoader loader(images, options.loader);
  ProgressCounter progress("eval", images->num_images(), "images", options.quiet);
  BadImageLines skipped;
  while (std::optional<Batch> batch = loader.next()) {
    check_interrupt();
    for (const std::string& image : batch->bad_images) progress.message(skipped.line(image));
    if (!batch->targets.empty()) visit(*batch);
    progress.add(static_cast<int64_t>(batch->targets.size()));
  }
  progress.finish();
}

void for_each_started_batch(Module& model, const std::shared_ptr<const Dataset>& images,
                            const EvaluatorOptions& options,
                            const std::function<std::function<void()>(const Batch&)>& start) {
  std::function<void()> finish_before;
  for_each_batch(model, images, options, [&](const Batch& batch) {
    std::function<void()> finish = start(batch);
    if (finish_before) finish_before();
    finish_before = std::move(finish);
  });
  if (finish_before) finish_before();
}

std::string collect_bytes(Module& model, const std::shared_ptr<const Dataset>& images,
                          const EvaluatorOptions& options,
                          const std::function<std::string(const Batch&)>& visit) {
  ProcessGroup& group = process_group();
  EvaluatorOptions own = options;
  own.loader.rank = group.rank();
  own.loader.ranks = group.size();
  own.loader.sharing = Sharing::kTurns;
  own.quiet = options.quiet || !group.is_first();
  std::string found, problem;  // found: for each batch, the number of bytes and the bytes
  try {
    for_each_batch(model, images, own, [&](const Batch& batch) {
      const AloneScope alone;  // nothing is summed across ranks here
      const std::string bytes = visit(batch);
      const uint64_t head[] = {static_cast<uint64_t>(batch.index), bytes.size()};
      found.append(reinterpret_cast<const char*>(head), sizeof(head));
      found += bytes;
    });
  } catch (const Interrupted&) {
    problem = "interrupted";
  } catch (const InputError& error) {
    problem = fmt::format("error {}", error.what());
  }
  // If one rank stops, all of them do.
  const std::vector<std::string> problems = group.exchange(problem);
  for (size_t r = 0; r < problems.size(); ++r) {
    if (problems[r] == "interrupted") throw Interrupted();
    if (!problems[r].empty()) fail_input("rank {}: {}", r, problems[r].substr(6));
  }
  std::map<uint64_t, std::string> batches;
  for (const std::string& part : group.exchange(found, false))
    for (size_t at = 0; at < part.size();) {
      uint64_t head[2];
      std::memcpy(head, part.data() + at, sizeof(head));
      batches[head[0]] = part.substr(at + sizeof(head), head[1]);
      at += sizeof(head) + head[1];
    }
  std::string all;
  for (const auto& [index, bytes] : batches) all += bytes;
  return all;
}

Evaluation evaluate_batches(Module& model, const std::shared_ptr<const Dataset>& images,
                            const EvaluatorOptions& options, const EvaluatorSpec& spec,
                            const EvaluatorSpec::Options& evaluator_options,
                            const std::function<std::function<void()>(const Batch&, Evaluator&)>& start) {
  const std::unique_ptr<Evaluator> evaluator = spec.start(evaluator_options);
  const auto result = [&] {
    try {
      return evaluator->result();
    } catch (const InputError& e) {
      fail_input("{}: {}", images->name(), e.what());
    }
  };
  if (process_group().alone()) {
    for_each_started_batch(model, images, options,
                           [&](const Batch& batch) { return start(batch, *evaluator); });
    return result();
  }
  evaluator->merge(collect_bytes(model, images, options, [&](const Batch& batch) {
    const std::unique_ptr<Evaluator> part = spec.start(evaluator_options);
    start(batch, *part)();
    return part->state();
  }));
  return process_group().is_first() ? result() : Evaluation{};
}

}  // namespace saccade
