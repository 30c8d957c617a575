// saccade eval and saccade predict with a classifier: the best classes of each image, printed and as a list.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/files/text.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/formats/data_format.h"
#include "train/classification/evaluate.h"
#include "train/commands/task_commands.h"
#include "train/config/options.h"
#include "train/inference/runner.h"
#include "train/logs/print.h"

namespace saccade {
namespace {

Evaluation evaluate_classes(const EvalArguments& arguments, const LoadedModel& model,
                            const EvaluatorOptions& options) {
  for (auto [flag, value] :
       {std::pair{"--annotations", &arguments.annotations}, std::pair{"--detections", &arguments.detections}})
    if (!value->empty())
      fail_input("{}: {} is a classifier, expected only --images with one sub-folder for each class", flag,
                 arguments.checkpoint);
  if (arguments.per_class)
    fail_input("--per-class: {} is a classifier; saccade report shows the accuracy of each class",
               arguments.checkpoint);
  if (arguments.figures != FigureOptions())
    fail_input("--iou, --max-detections, --area-ranges: {} is a classifier, which has no detections",
               arguments.checkpoint);
  std::vector<std::string> notes;
  DataPaths paths = eval_paths(arguments, model);
  only_classes(paths, arguments.classes, model, arguments.checkpoint);
  auto images = open_classification_dataset(paths, model.class_names, &notes);
  for (const std::string& note : images->notes()) print_line(note);
  for (const std::string& note : notes) print_line(note);
  return evaluate_classifier(model.as<Classifier>(), images, classification_evaluator(model.config), options);
}

std::function<void(const Batch&)> class_inference(const LoadedModel& model, const EvaluatorOptions& options) {
  auto runner = std::make_shared<ClassifierRunner>(model.as<Classifier>(), options.normalization);
  return [runner](const Batch& batch) { runner->run(batch); };
}

constexpr size_t kShownClasses = 5;

struct ClassScore {
  size_t label;
  double score;  // softmax
};

// Falling score, the smaller label first where they are equal.
std::vector<ClassScore> best_classes(const std::vector<float>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<ClassScore> scores;
  double sum = 0;
  for (size_t k = 0; k < logits.size(); ++k) {
    scores.push_back({k, std::exp(logits[k] - largest)});
    sum += scores.back().score;
  }
  for (ClassScore& s : scores) s.score /= sum;
  std::stable_sort(scores.begin(), scores.end(), [](auto& a, auto& b) { return a.score > b.score; });
  if (scores.size() > kShownClasses) scores.resize(kShownClasses);
  return scores;
}

class ClassPredictor : public Predictor {
 public:
  ClassPredictor(const PredictArguments& arguments, const LoadedModel& model)
      : output_(arguments.output),
        model_(model),
        runner_(model.as<Classifier>(), image_normalization(model.config)) {
    if (arguments.sampling_points)
      fail_input("--sampling-points: {} is a classifier, expected a detector", arguments.checkpoint);
    if (arguments.threshold)
      fail_input("--threshold: {} is a classifier, which scores every class; expected a detector",
                 arguments.checkpoint);
    for (auto [flag, given] :
         {std::pair{"--classes", !arguments.classes.empty()}, std::pair{"--max", arguments.max > 0},
          std::pair{"--crop", arguments.crop}, std::pair{"--tile", arguments.tile > 0}})
      if (given) fail_input("{}: {} is a classifier, expected a detector", flag, arguments.checkpoint);
  }

  std::vector<std::string> predict(std::vector<LoadedInput> images, const Workspace&,
                                   PictureNames&) override {
    const std::vector<float> logits = runner_.run(batch_of(images, model_.config));
    const auto classes = static_cast<std::ptrdiff_t>(logits.size() / images.size());
    auto row = logits.begin();
    for (const LoadedInput& loaded : images) {
      add(*loaded.input, {row, row + classes});
      row += classes;
    }
    return {};
  }
  std::string list_name() const override { return "predictions.json"; }
  std::string take_list() override { return std::exchange(list_, {}); }
  std::string summary(size_t images) const override {
    return fmt::format("{}{}: predictions.json with the best classes of {} images\n", lines_,
                       escaped(output_), images);
  }
  bool has_pictures() const override { return false; }

 private:
  void add(const PredictInput& input, const std::vector<float>& logits) {
    std::string top, line = escaped(input.name) + ":";
    for (const ClassScore& s : best_classes(logits)) {
      const std::string& name = model_.class_names.at(s.label);
      top += fmt::format("{}{{\"class\": {}, \"score\": {}}}", top.empty() ? "" : ", ", json_quote(name),
                         s.score);
      line += fmt::format(" {} {:.3f}", printable(name), s.score);
    }
    list_ += fmt::format("{}\n{{\"file_name\": {}, \"classes\": [{}]}}", count_++ ? "," : "",
                         json_quote(input.name), top);
    lines_ += line + "\n";
  }

  std::string output_;
  const LoadedModel& model_;
  ClassifierRunner runner_;
  std::string list_, lines_;
  int64_t count_ = 0;
};

std::unique_ptr<Predictor> class_predictor(const PredictArguments& arguments, const LoadedModel& model) {
  return std::make_unique<ClassPredictor>(arguments, model);
}

[[maybe_unused]] const bool classification_commands_registered =
    task_commands().add({.name = "classification",
                         .file = __FILE__,
                         .inference = class_inference,
                         .evaluate = evaluate_classes,
                         .report = add_classification_sections,
                         .predictor = class_predictor});

}  // namespace
}  // namespace saccade
