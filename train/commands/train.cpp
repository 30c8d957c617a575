// saccade train: from a recipe and data sets to checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/formats/output_file.h"
#include "core/runtime/interrupt.h"
#include "core/tensor/error.h"
#include "layers/name_patterns.h"
#include "train/checkpoints/run_folder.h"
#include "train/commands/commands.h"
#include "train/commands/device_choice.h"
#include "train/config/task.h"
#include "train/logs/progress.h"
#include "train/loop/trainer.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFreeze = "--freeze";

// The recipe: of a run that goes on, its own where no other is given.
std::string recipe(const TrainArguments& arguments) {
  if (!arguments.config.empty()) return arguments.config;
  if (!arguments.resume) fail_input("saccade train: --config is required (see saccade train --help)");
  const std::string own = arguments.output + "/config.textproto";
  std::error_code error;
  if (!fs::exists(own, error))
    fail_input(
        "{}: holds no run to resume, as there is no config.textproto in it; expected the folder of a run, or --config",
        arguments.output);
  return own;
}

Config configuration(const TrainArguments& arguments) {
  NamePatterns(arguments.freeze, kFreeze);
  Config config = load_config(recipe(arguments), arguments.set);
  if (!arguments.data.empty()) {
    config.mutable_data()->set_folder(arguments.data);
    config.mutable_data()->clear_train();
    config.mutable_data()->clear_val();
  }
  // --max-steps stops a run early; it is its planned length only where the configuration has none.
  bool endless = config.train().epochs() <= 0 && config.train().max_steps() <= 0;
  if (arguments.max_steps > 0 && endless) config.mutable_train()->set_max_steps(arguments.max_steps);
  // Before the groups of the recipe, since the first that fits counts.
  config::Optimizer groups;
  for (const std::string& regex : arguments.freeze) {
    config::ParameterGroup& group = *groups.add_group();
    group.set_regex(regex);
    group.set_frozen(true);
  }
  // Without those that a resumed run already has.
  for (const config::ParameterGroup& group : config.optimizer().group())
    if (!group.frozen() || std::ranges::find(arguments.freeze, group.regex()) == arguments.freeze.end())
      *groups.add_group() = group;
  config.mutable_optimizer()->mutable_group()->Swap(groups.mutable_group());
  validate_for_training(config);
  return resolve_config(config);
}

std::string quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// The command that goes on with the run. Its configuration lies in its folder.
std::string resume_command(const TrainArguments& arguments, bool same_end) {
  std::string command = "saccade train --output " + quoted(arguments.output) + " --resume";
  if (arguments.device != "auto") command += " --device " + arguments.device;
  if (same_end && arguments.max_steps > 0) command += fmt::format(" --max-steps {}", arguments.max_steps);
  return command;
}

std::string describe_stop(const TrainArguments& arguments, const Config& config,
                          const TrainingResult& result) {
  const char* to_go_on = "; to go on:";
  switch (result.reason) {
    case StopReason::kComplete:
      return "";
    case StopReason::kStep:
      return fmt::format("stopped after step {} (--max-steps){} {}", result.step, to_go_on,
                         resume_command(arguments, false));
    case StopReason::kTime:
      return fmt::format("stopped after step {}: the {} minutes of train.max_minutes are over{} {}",
                         result.step, config.train().max_minutes(), to_go_on,
                         resume_command(arguments, true));
    case StopReason::kPatience:
      return fmt::format(
          "stopped after step {}: {} has not risen for {} evaluations (train.patience){} {} --set train.patience=0",
          result.step, result.best_name, config.train().patience(), to_go_on,
          resume_command(arguments, true));
    case StopReason::kSignal:
      break;
  }
  return fmt::format("stopped by {} after step {}, which is saved{} {}", signal_name(interrupt_signal()),
                     result.step, to_go_on, resume_command(arguments, true));
}

// Trains in the folder; exit status.
int train_in(RunFolder& folder, const TrainArguments& arguments, const TrainerOptions& options,
             const std::string& notice) {
  const Config& config = options.config;
  if (!arguments.resume) {
    folder.refuse_run();
    check_outputs(
        {{"the configuration of the run", folder.config()}, {"the metrics of the run", folder.metrics()}},
        {{"--config", arguments.config}});
  }
  if (!arguments.init_from.empty()) open_weights(arguments.init_from);
  std::unique_ptr<TrainingTask> task = task_of(config).make(config);
  NamePatterns frozen(arguments.freeze, kFreeze);
  for (const NamedTensor& p : task->model().parameters()) frozen.match(p.name);
  frozen.finish("parameter of the model");
  check_interrupt();
  task->model().set_recompute(
      {config.train().checkpoint_modules().begin(), config.train().checkpoint_modules().end()},
      "train.checkpoint_modules");
  Progress console;
  auto say = [&](const std::string& line) {
    if (!line.empty() && !options.quiet) console.message(line);
  };
  say(notice);
  const TrainingResult result = train(options, *task, folder);
  say(describe_stop(arguments, config, result));
  std::string end = fmt::format("{}: {} steps", arguments.output, result.step);
  if (result.best_step >= 0)
    end +=
        fmt::format(", best {} {:.4f} after step {}", result.best_name, result.best_metric, result.best_step);
  say(end);
  return result.reason == StopReason::kSignal ? 128 + interrupt_signal() : 0;
}

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
  options.quiet = arguments.quiet;
  InterruptScope signals;
  try {
    RunFolder folder(arguments.output);
    return train_in(folder, arguments, options, choice.notice);
  } catch (const Interrupted&) {
    Progress().message(fmt::format("stopped by {} before a step was done", signal_name(interrupt_signal())));
    return 128 + interrupt_signal();
  }
}

}  // namespace saccade
