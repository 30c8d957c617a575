// A complete third task, as docs/extending.md describes it: how many objects are in an image. Nothing outside
// this file knows about it.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "autograd/ops.h"
#include "core/formats/json.h"
#include "models/build.h"
#include "models/common/pooled_classifier.h"
#include "models/summary.h"
#include "train/checkpoints/load_model.h"
#include "train/config/options.h"
#include "train/config/task.h"
#include "train/inference/answerer.h"
#include "train/inference/evaluation_data.h"
#include "train/inference/model_input.h"
#include "train/inference/predictor.h"
#include "train/loop/training_task.h"
#include "train/report/evaluation_sections.h"
#include "train/report/run_metrics.h"

namespace saccade {
namespace {

// Predicts one number per image, [N, 1].
[[maybe_unused]] const bool counter_registered =
    model_types().add({.name = "counter",
                       .summary = "the number of objects: a backbone, the mean over its map, a linear layer",
                       .task = "counting",
                       .build = [](const Args& model, int64_t, const Args&) -> std::shared_ptr<Module> {
                         return std::make_shared<PooledClassifier>(
                             "Counter", build_backbone(model.get_section("backbone"), {4}), "count", 1);
                       },
                       .parts = {}});

int64_t objects_of(const Target& target) { return std::ssize(target.instances); }

class CounterInferencer : public Inferencer {
 public:
  CounterInferencer(Classifier& model, const Config& config)
      : model_(model), normalization_(image_normalization(config)) {}
  // The score is the number.
  std::vector<std::vector<Instance>> run(const Batch& batch) override {
    std::vector<std::vector<Instance>> found;
    for (float count : model_.forward(normalized_images(batch, normalization_)).value().to_vector<float>())
      found.push_back({{.score = count}});
    return found;
  }

 private:
  Classifier& model_;
  kernels::ImageNormalization normalization_;
};

// Computes the fraction of images whose rounded number is right, and the mean error.
Evaluation evaluate_counts(Classifier& model, const Config& config,
                           const std::shared_ptr<const Dataset>& images, const EvaluatorOptions& options) {
  CounterInferencer inference(model, config);
  double right = 0, error = 0, count = 0;
  for_each_batch(model, images, options, [&](const Batch& batch) {
    const auto found = inference.run(batch);
    for (size_t n = 0; n < found.size(); ++n, ++count) {
      const double off = std::abs(found[n].at(0).score - static_cast<double>(objects_of(batch.targets[n])));
      right += off < 0.5;
      error += off;
    }
  });
  Evaluation evaluation{.metrics = {{"right", right / count}, {"mean_error", error / count}}};
  evaluation.table = fmt::format("right {:.3f}, mean error {:.3f}\n", right / count, error / count);
  evaluation.json = fmt::format("{{\"right\": {}, \"mean_error\": {}}}\n", right / count, error / count);
  return evaluation;
}

class CounterTraining final : public ImageTrainingTask {
 public:
  explicit CounterTraining(const Config& config)
      : ImageTrainingTask(config), model_(build_as<Classifier>(config, 1)) {}
  Module& model() override { return *model_; }
  std::vector<std::string> class_names() const override { return {"objects"}; }
  std::vector<int64_t> category_ids() const override { return {}; }
  // Returns the mean squared error over the images of the step.
  TrainingLoss loss(const Batch& batch, const StepImages& step,
                    const std::function<void()>& forward_done) override {
    std::vector<float> counts;
    for (const Target& target : batch.targets) counts.push_back(static_cast<float>(objects_of(target)));
    const Tensor truth = Tensor::from<float>({std::ssize(counts), 1}, counts, model_->device());
    const Var found =
        model_->forward(normalized_images(batch, image_normalization(config_), model_->device()));
    forward_done();
    const Var difference = sub(found, Var(truth));
    const Var total = mul_scalar(sum(mul(difference, difference)), 1.0 / static_cast<double>(step.images()));
    return {total, {{"count", total.value()}}};
  }
  std::vector<std::string> primary_metrics() const override {
    return val_set_ ? std::vector<std::string>{"right"} : std::vector<std::string>{};
  }
  Metrics evaluate(bool quiet) override {
    EvaluatorOptions options = evaluator_options(config_);
    options.quiet = quiet;
    return evaluate_counts(*model_, config_, val_set_, options).metrics;
  }

 private:
  std::shared_ptr<Classifier> model_;
};

class CountPredictor : public Predictor {
 public:
  explicit CountPredictor(const LoadedModel& model)
      : config_(model.config), inference_(model.as<Classifier>(), config_) {}
  void predict(std::vector<LoadedInput> images, PictureNames&, PictureWriter&) override {
    const auto found = inference_.run(batch_of(images, config_));
    for (size_t n = 0; n < images.size(); ++n)
      list_ += fmt::format("{}\n{{\"file_name\": {}, \"objects\": {}}}", count_++ ? "," : "",
                           json_quote(images[n].input->name), found[n].at(0).score);
  }
  std::string list_name() const override { return "counts.json"; }
  std::string take_list() override { return std::exchange(list_, {}); }
  std::string summary(size_t images) const override { return fmt::format("{} images counted\n", images); }
  bool has_pictures() const override { return false; }

 private:
  Config config_;
  CounterInferencer inference_;
  std::string list_;
  int64_t count_ = 0;
};

class CountingTask final : public Task {
 public:
  void check_split(const std::string& field, const config::Split& split) const override {
    need(field + ".annotations", split.annotations(), "a file of annotations, or data.folder");
  }
  Contents needs(const Config&) const override { return {.boxes = true}; }
  std::optional<DataSize> data_size(const Config&) const override { return DataSize{1, 0}; }
  UsualClasses usual_classes() const override { return {1, "any data set"}; }
  std::string draw_target(Image&, const Batch& batch, size_t n,
                          const std::vector<std::string>&) const override {
    return fmt::format("{} objects", objects_of(batch.targets.at(n)));
  }
  void check_classes(const Classes&, const std::string&) const override {}
  Classes unnamed_classes(int64_t) const override { return {{"objects"}, {}}; }
  std::unique_ptr<TrainingTask> training(const Config& config) const override {
    return std::make_unique<CounterTraining>(config);
  }
  std::vector<std::string> primary_metrics(const Config&) const override { return {"right"}; }
  std::vector<MetricChart> charts() const override {
    return {{.title = "Validation", .metrics = {{"right", "right"}}}};
  }
  std::unique_ptr<Inferencer> inferencer(const LoadedModel& model) const override {
    return std::make_unique<CounterInferencer>(model.as<Classifier>(), model.config);
  }
  Evaluation evaluate(const EvalArguments& arguments, const LoadedModel& model,
                      const EvaluatorOptions& options) const override {
    return evaluate_counts(model.as<Classifier>(), model.config, open_dataset(eval_paths(arguments, model)),
                           options);
  }
  std::unique_ptr<Predictor> predictor(const PredictArguments&, const LoadedModel& model) const override {
    return std::make_unique<CountPredictor>(model);
  }
  std::string report(Page& page, const ReportOptions& options) const override {
    const LoadedModel& model = options.model;
    const Evaluation evaluation = evaluate_counts(model.as<Classifier>(), model.config,
                                                  open_dataset(options.paths), options.evaluation);
    page.section("Counts");
    page.add(note(evaluation.table));
    return evaluation.json;
  }
  ModelSummary summarize(Module& model, int64_t height, int64_t width) const override {
    return saccade::summarize(model_as<Classifier>(model), height, width);
  }
};

[[maybe_unused]] const bool counting_registered =
    tasks().add({.name = "counting", .task = std::make_shared<CountingTask>()});

}  // namespace
}  // namespace saccade
