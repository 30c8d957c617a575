// saccade eval: the metrics of a checkpoint on a data set, those of the evaluator that its configuration names.
#include <fmt/format.h>

#include "core/formats/file.h"
#include "core/formats/output_file.h"
#include "core/tensor/error.h"
#include "data/formats/data_format.h"
#include "train/checkpoints/load_model.h"
#include "train/classification/evaluate.h"
#include "train/commands/commands.h"
#include "train/commands/device_choice.h"
#include "train/detection/evaluator.h"

namespace saccade {

namespace {

void print(const Evaluation& evaluation) {
  for (const std::string& note : evaluation.notes) fmt::print("{}\n", note);
  fmt::print("{}", evaluation.table);
}

// Both return the text of --json.
std::string eval_detector(const EvalArguments& arguments, const LoadedModel& model,
                          const EvaluatorOptions& options) {
  if (arguments.annotations.empty())
    fail_input(
        "--annotations: not given, expected the COCO annotations that the detector {} is compared with",
        arguments.checkpoint);
  auto dataset = open_detection_dataset({arguments.annotations, arguments.images});
  check_categories(*dataset, model.category_ids, model.class_names, arguments.checkpoint);
  std::vector<Detection> detections = detect(*model.detector, dataset, model.category_ids, options);
  Evaluation evaluation =
      detection_evaluator(model.config)
          .evaluate(dataset->ground_truth(), detections, {.source = arguments.checkpoint});
  print(evaluation);
  if (!arguments.detections.empty()) write_detections(arguments.detections, detections);
  return evaluation.json;
}

std::string eval_classifier(const EvalArguments& arguments, const LoadedModel& model,
                            const EvaluatorOptions& options) {
  for (auto [flag, value] :
       {std::pair{"--annotations", &arguments.annotations}, std::pair{"--detections", &arguments.detections}})
    if (!value->empty())
      fail_input("{}: {} is a classifier, expected only --images with one sub-folder for each class", flag,
                 arguments.checkpoint);
  auto images = open_classification_dataset({"", arguments.images}, model.class_names);
  for (const std::string& note : images->notes()) fmt::print("{}\n", note);
  Evaluation evaluation =
      evaluate_classifier(*model.classifier, images, classification_evaluator(model.config), options);
  print(evaluation);
  return evaluation.json;
}

}  // namespace

int run_eval(const EvalArguments& arguments) {
  check_output_file(arguments.detections);
  check_output_file(arguments.json);
  const DeviceChoice choice = choose_device(arguments.device);
  LoadedModel model = load_trained_model(arguments.checkpoint, choice.device);
  if (!choice.notice.empty()) fmt::print("{}\n", choice.notice);
  EvaluatorOptions options = evaluator_options(model.config, arguments.batch_size);
  std::string json = model.classifier ? eval_classifier(arguments, model, options)
                                      : eval_detector(arguments, model, options);
  if (!arguments.json.empty()) write_file(arguments.json, std::string_view(json));
  return 0;
}

}  // namespace saccade
