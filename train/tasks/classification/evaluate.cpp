// Runs a classifier over images.
#include "train/tasks/classification/classification.h"

#include <vector>

#include "core/tensor/error.h"
#include "data/formats/named_classes.h"
#include "train/config/options.h"
#include "train/inference/evaluation_data.h"
#include "train/tasks/classification/runner.h"

namespace saccade {

Evaluation evaluate_classifier(Classifier& model, const std::shared_ptr<const Dataset>& images,
                               const EvaluatorSpec& spec, const EvaluatorOptions& options) {
  ClassifierRunner runner(model, options.normalization);
  return evaluate_batches(model, images, options, spec, {}, [&](const Batch& batch, Evaluator& to) {
    return [&to, finish = runner.start(batch), targets = batch.targets] {
      const std::vector<float> logits = finish();
      const size_t classes = logits.size() / targets.size();
      for (size_t n = 0; n < targets.size(); ++n)
        to.add({.logits = std::span(logits).subspan(n * classes, classes), .label = targets[n].label});
    };
  });
}

void only_classes(DataPaths& paths, const std::vector<std::string>& names, const LoadedModel& model,
                  const std::string& checkpoint) {
  paths.categories = number_classes(model.class_names, {});
  if (names.empty()) return;
  check_choice({.only = names}, model.class_names, checkpoint);
  paths.choice.only = names;
}

Evaluation ClassificationParts::evaluate(const EvalArguments& arguments, const LoadedModel& model,
                                         const EvaluatorOptions& options) const {
  for (auto [flag, value] :
       {std::pair{"--annotations", &arguments.annotations}, std::pair{"--detections", &arguments.detections}})
    if (!value->empty())
      fail_input("{}: {} is a classifier, expected only --images with one sub-folder for each class", flag,
                 arguments.checkpoint);
  if (arguments.per_class)
    fail_input("--per-class: {} is a classifier; saccade report shows the accuracy of each class",
               arguments.checkpoint);
  if (const std::string flags = arguments.metric_options.given_flags(); !flags.empty())
    fail_input("{}: {} is a classifier, which has no detections", flags, arguments.checkpoint);
  std::optional<DataPaths> training;
  DataPaths paths = eval_paths(arguments, model, &training);
  only_classes(paths, arguments.classes, model, arguments.checkpoint);
  const auto images = open_judged(paths, model, training);
  return evaluate_classifier(model.as<Classifier>(), images, evaluator_of(model.config), options);
}

}  // namespace saccade
