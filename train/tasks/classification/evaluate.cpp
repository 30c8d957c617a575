// Runs a classifier over images.
#include "train/tasks/classification/classification.h"

#include <vector>

#include "core/tensor/error.h"
#include "train/config/options.h"
#include "train/inference/evaluation_data.h"
#include "train/logs/print.h"
#include "train/tasks/classification/runner.h"

namespace saccade {

Evaluation evaluate_classifier(Classifier& model, const std::shared_ptr<const ClassificationDataset>& images,
                               const ClassificationEvaluator& evaluator, const EvaluatorOptions& options) {
  ClassifierRunner runner(model, options.normalization);
  size_t classes = 0;
  // Rows of an image's logits and its class, of which there are far fewer than a float counts.
  const std::vector<float> rows =
      collect<float>(model, images, options, [&](const Batch& batch, std::vector<float>& all) {
        const std::vector<float> logits = runner.run(batch);
        classes = logits.size() / batch.targets.size();
        for (size_t n = 0; n < batch.targets.size(); ++n) {
          all.insert(all.end(), logits.data() + n * classes, logits.data() + (n + 1) * classes);
          all.push_back(static_cast<float>(batch.targets[n].label));
        }
      });
  if (!process_group().is_first()) return {};
  std::unique_ptr<ClassificationScore> score = evaluator.start();
  for (size_t at = 0; at < rows.size(); at += classes + 1)
    score->add(std::span<const float>(rows).subspan(at, classes), static_cast<int64_t>(rows[at + classes]));
  return score->result();
}

void only_classes(DataPaths& paths, const std::vector<std::string>& names, const LoadedModel& model,
                  const std::string& checkpoint) {
  if (names.empty()) return;
  check_choice({.only = names}, model.class_names, checkpoint);
  paths.choice.only = names;
}

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
    fail_input("--max-detections, --area-ranges: {} is a classifier, which has no detections",
               arguments.checkpoint);
  std::vector<std::string> notes;
  DataPaths paths = eval_paths(arguments, model);
  only_classes(paths, arguments.classes, model, arguments.checkpoint);
  auto images = open_classification_dataset(paths, model.class_names, &notes);
  for (const std::string& note : images->notes()) print_line(note);
  for (const std::string& note : notes) print_line(note);
  return evaluate_classifier(model.as<Classifier>(), images, classification_evaluator(model.config), options);
}

}  // namespace saccade
