// saccade predict: the predictions of a checkpoint for images, as a list and, of a detector, as pictures.
#include <optional>
#include <utility>

#include "core/formats/output_file.h"
#include "core/tensor/error.h"
#include "train/commands/device_choice.h"
#include "train/commands/task_commands.h"
#include "train/logs/print.h"
#include "train/logs/progress.h"

namespace saccade {
namespace {

// Nothing, when the file is bad and has been reported.
std::optional<Image> read_or_report(const std::string& path, ProgressCounter& progress) {
  try {
    return read_image(path);
  } catch (const InputError& error) {
    progress.clear();
    print_error(error.what());
    return std::nullopt;
  }
}

// Works through the images, puts their results in the workspace and returns those that are not bad.
std::vector<PredictInput> predict_each(const std::vector<PredictInput>& images, Predictor& predictor,
                                       const Workspace& workspace) {
  std::vector<PredictInput> good;
  ProgressCounter progress("predict", static_cast<int64_t>(images.size()), "images");
  for (const PredictInput& input : images) {
    if (std::optional<Image> image = read_or_report(input.path, progress)) {
      predictor.predict(input, std::move(*image), workspace);
      good.push_back(input);
    }
    progress.add(1);
  }
  if (good.empty())
    progress.clear();
  else
    progress.finish();
  return good;
}

}  // namespace

int run_predict(const PredictArguments& arguments) {
  const DeviceChoice choice = choose_device(arguments.device);
  PredictInputs inputs = collect_inputs(arguments.images);
  LoadedModel model = load_trained_model(arguments.checkpoint, choice.device);
  std::unique_ptr<Predictor> predictor = task_commands().find(model.task).predictor(arguments, model);
  EvaluationMode mode(*model.module, precision_of(model.config));
  const std::string list = predictor->list_name();
  check_list(arguments.output, list);
  if (predictor->has_pictures())
    if (std::string note = name_pictures(inputs.images, arguments.output); !note.empty()) print_line(note);
  Workspace workspace(arguments.output);
  if (!choice.notice.empty()) print_line(choice.notice);
  for (const std::string& note : inputs.notes) print_line(note);
  for (const std::string& problem : inputs.problems) print_error(problem);
  const std::vector<PredictInput> good = predict_each(inputs.images, *predictor, workspace);
  const size_t bad = inputs.images.size() - good.size();
  // What is bad has been reported: the rest is done, and the exit status tells.
  const int status = bad + inputs.problems.size() > 0 ? 2 : 0;
  if (good.empty()) return status;
  write_file(workspace.file(list), std::string_view("[" + predictor->list() + "\n]\n"));
  if (predictor->has_pictures())
    for (const PredictInput& input : good) workspace.publish(input.picture);
  workspace.publish(list);
  print_text(predictor->summary(good.size()));
  if (bad > 0)
    print_line("{}: {} of {} files could not be read", arguments.output, bad, inputs.images.size());
  return status;
}

}  // namespace saccade
