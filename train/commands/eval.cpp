// saccade eval: the metrics of a checkpoint on a data set, those of the evaluator that its configuration names.
#include <fmt/ranges.h>

#include <algorithm>

#include "core/files/output_file.h"
#include "core/tensor/error.h"
#include "data/formats/splits.h"
#include "data/images/image.h"
#include "train/commands/device_choice.h"
#include "train/commands/predict_files.h"
#include "train/commands/task_commands.h"
#include "train/config/task.h"
#include "train/logs/print.h"

namespace saccade {

std::vector<Category> categories_of(const LoadedModel& model) {
  std::vector<Category> categories;
  for (size_t k = 0; k < model.category_ids.size(); ++k)
    if (model.class_names[k] != kNoCategory)
      categories.push_back({model.category_ids[k], model.class_names[k]});
  return categories;
}

DataPaths eval_paths(const EvalArguments& arguments, const LoadedModel& model) {
  const Config& config = model.config;
  DataPaths paths{.annotations = arguments.annotations, .images = arguments.images};
  if (!arguments.data.empty()) {
    if (!arguments.annotations.empty() || !arguments.images.empty())
      fail_input("--data: {} beside --annotations or --images, expected only one of them",
                 fmt::join(arguments.data, " + "));
    const DataSplits splits = find_united(arguments.data, place_options(config));
    if (arguments.data.size() > 1)
      for (const std::string& note : splits.notes) print_line("note: {}", note);
    for (const SplitNames& names : split_names()) {
      if (names.names[0] != arguments.split) continue;
      const auto& split = splits.*names.split;
      if (!split) fail_input("{}: has no {} images", fmt::join(arguments.data, " + "), arguments.split);
      paths = *split;
    }
  } else if (arguments.images.empty()) {
    fail_input("--images: not given, expected the folder of the images, or --data");
  }
  if (has_several_sets(config)) paths = known_by_names(paths);
  paths.categories = categories_of(model);
  paths.choice = class_choice(config);
  paths.allow_outside = arguments.allow_outside;
  paths.skip_bad_images = config.data().bad_images() == config::skip;
  return paths;
}

void only_classes(DataPaths& paths, const std::vector<std::string>& names, const LoadedModel& model,
                  const std::string& checkpoint) {
  if (names.empty()) return;
  check_choice({.only = names}, model.class_names, checkpoint);
  paths.choice.only = names;
}

int run_eval(const EvalArguments& arguments) {
  check_outputs({{"--detections", arguments.detections}, {"--json", arguments.json}},
                {{"--checkpoint", arguments.checkpoint}, {"--annotations", arguments.annotations}});
  for (const std::string& output : {arguments.detections, arguments.json})
    if (has_image_extension(output))
      fail_input("{}: is the name of an image, expected one that ends in .json", output);
  const NamedJson json(arguments.json), detections(arguments.detections);
  const DeviceChoice choice = choose_device(arguments.device);
  LoadedModel model =
      load_trained_model(arguments.checkpoint, choice.device, arguments.precision, arguments.set);
  if (!choice.notice.empty()) print_line(choice.notice);
  find_as_many_as_count(model.config, arguments.figures);
  Evaluation evaluation;
  with_model_of(arguments.checkpoint, eval_size(model.config), "--set data.val_..., --batch-size", [&] {
    evaluation = task_commands()
                     .find(model.task)
                     .evaluate(arguments, model, evaluator_options(model.config, arguments.batch_size));
  });
  for (const std::string& note : evaluation.notes) print_line(note);
  print_text(evaluation.table);
  detections.tell_if_replaced();
  json.write(evaluation.json);
  return 0;
}

}  // namespace saccade
