// saccade predict: the predictions of a checkpoint for images, as a list and, of a detector, as pictures.
#include <fmt/format.h>

#include "core/formats/file.h"
#include "train/commands/device_choice.h"
#include "train/commands/task_commands.h"
#include "train/logs/progress.h"

namespace saccade {

int run_predict(const PredictArguments& arguments) {
  const DeviceChoice choice = choose_device(arguments.device);
  std::vector<PredictInput> inputs = collect_inputs(arguments.images);
  LoadedModel model = load_trained_model(arguments.checkpoint, choice.device);
  if (!choice.notice.empty()) fmt::print("{}\n", choice.notice);
  std::unique_ptr<Predictor> predictor = task_commands().find(model.task).predictor(arguments, model);
  EvaluationMode mode(*model.module, precision_of(model.config));
  Workspace workspace(arguments.output);
  ProgressCounter progress("predict", static_cast<int64_t>(inputs.size()), "images");
  for (const PredictInput& input : inputs) {
    predictor->predict(input, read_image(input.path), workspace);
    progress.add(1);
  }
  progress.finish();
  const std::string name = predictor->list_name();
  write_file(workspace.file(name), std::string_view("[" + predictor->list() + "\n]\n"));
  if (predictor->has_pictures())
    for (const PredictInput& input : inputs) workspace.publish(input.picture);
  workspace.publish(name);
  fmt::print("{}", predictor->summary(inputs.size()));
  return 0;
}

}  // namespace saccade
