// saccade train: from a recipe and data sets to checkpoints.
#include <fmt/format.h>

#include <filesystem>

#include "core/tensor/error.h"
#include "train/checkpoints/checkpoint.h"
#include "train/commands/commands.h"
#include "train/commands/device_choice.h"
#include "train/config/task.h"
#include "train/logs/print.h"
#include "train/loop/trainer.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

Config configuration(const TrainArguments& arguments) {
  Config config = load_config(arguments.config, arguments.set);
  // --max-steps stops a run early; it is its planned length only where the configuration has none.
  bool endless = config.train().epochs() <= 0 && config.train().max_steps() <= 0;
  if (arguments.max_steps > 0 && endless) config.mutable_train()->set_max_steps(arguments.max_steps);
  validate_for_training(config);
  return resolve_config(config);
}

// Removes a run folder that this command created and in which nothing was written yet.
class FreshFolder {
 public:
  explicit FreshFolder(const std::string& path) : path_(path), existed_(fs::exists(path)) {}
  ~FreshFolder() {
    if (existed_ || !fs::exists(path_)) return;
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(path_, ignored))
      if (!entry.is_directory()) return;
    fs::remove_all(path_, ignored);
  }
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;

 private:
  fs::path path_;
  bool existed_;
};

}  // namespace

int run_train(const TrainArguments& arguments) {
  if (arguments.resume && !arguments.init_from.empty())
    fail_input("--init-from starts a new run and --resume continues one, expected only one of them");
  if (arguments.reinit_heads && arguments.init_from.empty())
    fail_input("--reinit-heads needs --init-from: it leaves the class heads out of what is loaded");
  TrainerOptions options;
  const DeviceChoice choice = choose_device(arguments.device);
  options.device = choice.device;
  options.config = configuration(arguments);
  options.output = arguments.output;
  options.resume = arguments.resume;
  options.init_from = arguments.init_from;
  options.reinit_heads = arguments.reinit_heads;
  options.stop_at_step = arguments.max_steps;
  const Config& config = options.config;
  fs::path last = fs::path(arguments.output) / "checkpoints/last.safetensors";
  if (fs::exists(last) && !arguments.resume)
    fail_input("{}: holds a run already, expected a new folder, or --resume to continue it",
               arguments.output);
  if (fs::exists(arguments.output) && !fs::is_directory(arguments.output))
    fail_input("{}: is a file, expected a folder", arguments.output);
  if (!arguments.init_from.empty()) open_weights(arguments.init_from);

  std::unique_ptr<TrainingTask> task = task_of(config).make(config);
  task->model().set_recompute(
      {config.train().checkpoint_modules().begin(), config.train().checkpoint_modules().end()},
      "train.checkpoint_modules");
  FreshFolder fresh(arguments.output);
  if (!choice.notice.empty()) print_line(choice.notice);
  TrainingResult result = train(options, *task);
  print_text("{}: {} steps", arguments.output, result.step);
  if (result.best_step >= 0)
    print_text(", best {} {:.4f} after step {}", task->primary_metrics().front(), result.best_metric,
               result.best_step);
  print_line("");
  return 0;
}

}  // namespace saccade
