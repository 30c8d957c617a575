// saccade eval: computes the metrics of a checkpoint on a data set, using the evaluator that its
// configuration names.
#include "core/files/output_file.h"
#include "core/tensor/error.h"
#include "data/evaluation/evaluators.h"
#include "data/images/image.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/commands.h"
#include "train/config/quick_flags.h"
#include "train/config/task.h"
#include "train/inference/device_choice.h"
#include "train/inference/evaluation.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"

namespace saccade {

int run_eval(const EvalArguments& arguments) {
  check_outputs({{"--detections", arguments.detections}, {"--json", arguments.json}},
                {{"--checkpoint", arguments.checkpoint}, {"--annotations", arguments.annotations}});
  for (const std::string& output : {arguments.detections, arguments.json})
    if (has_image_extension(output))
      fail_input("{}: is the name of an image, expected one that ends in .json", output);
  const NamedFile json(arguments.json), detections(arguments.detections);
  if (arguments.batch_size > 0)
    refuse_conflicts({{fmt::format("--batch-size {}", arguments.batch_size),
                       fmt::format("eval.batch_size={}", arguments.batch_size)}},
                     arguments.set);
  const DeviceChoice choice = choose_device(arguments.device);
  LoadedModel model = load_trained_model(arguments.checkpoint, choice.device, arguments.precision,
                                         arguments.set, arguments.image_size);
  for (const std::string& note : model.notes) print_line(note);
  if (!choice.notice.empty()) print_line(choice.notice);
  find_as_many_as_count(model.config, arguments.metric_options);
  Evaluation evaluation;
  with_model_of(arguments.checkpoint, eval_size(model.config), "--set data.val_..., --batch-size", [&] {
    evaluation = task_of(model.config)
                     .evaluate(arguments, model, evaluator_options(model.config, arguments.batch_size));
  });
  for (const std::string& note : evaluation.notes) print_line(note);
  print_text(evaluation.table);
  detections.tell_if_replaced();
  json.write(evaluation.json);
  return 0;
}

}  // namespace saccade
