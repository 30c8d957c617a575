// saccade train: trains a recipe on data sets and writes checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/distributed/process_group.h"
#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/runtime/cpu/processors.h"
#include "core/runtime/cpu/thread_team.h"
#include "core/runtime/interrupt.h"
#include "core/tensor/error.h"
#include "layers/name_patterns.h"
#include "train/checkpoints/run_folder.h"
#include "train/commands/cli/cli.h"
#include "train/commands/commands.h"
#include "train/config/fine_tuning.h"
#include "train/config/options.h"
#include "train/config/overfit.h"
#include "train/config/recipes.h"
#include "train/config/schema/config_changes.h"
#include "train/config/task.h"
#include "train/inference/device_choice.h"
#include "train/logs/print.h"
#include "train/logs/progress.h"
#include "train/loop/trainer.h"
#include "train/weights/fetch.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

constexpr const char *kFreeze = "--freeze", *kOfOverfit = " (--overfit)";

std::string own_config(const TrainArguments& arguments) { return arguments.output + "/config.textproto"; }

// Returns the file of the recipe; a resumed run uses its own if no other is given.
std::string recipe_file(const TrainArguments& arguments) {
  if (!arguments.config.empty()) return arguments.config;
  if (!arguments.resume)
    fail_input(
        "saccade train: --config or --model is required, for example --model rt_detr_r18 --data my_images (see saccade "
        "train --help)");
  if (!fs::exists(own_config(arguments)))
    fail_input("{}: holds no run to resume{}; give the --output of a run, or --config to start one",
               arguments.output,
               fs::exists(arguments.output) ? " (it has no config.textproto)" : ": there is no such folder");
  return own_config(arguments);
}

// With --resume, as in a repeated command, --model must name the model of the run.
void check_resumed_model(const TrainArguments& arguments, const Config& run) {
  const Recipe& recipe = find_recipe(arguments.model, "--model");
  Config began = parse_config(recipe.text, recipe.name);
  for (const FlagEdit& edit : flag_edits(began, arguments.quick)) apply_set(began, edit.assignment);
  for (const std::string& set : arguments.set) apply_set(began, set);
  for (const ConfigChange& change : config_changes(resolve_config(began), resolve_config(run)))
    if (change.field.starts_with("model.") && change.field != "model.num_classes" &&
        !change.field.starts_with("model.backbone.frozen"))
      fail_input("--model {}: is not the model of the run {} ({}), expected no --model with --resume",
                 arguments.model, arguments.output, change.to_string());
}

// Returns what happens to a recipe after it was fitted to the data.
FurtherFit further_fit(const TrainArguments& arguments, const Recipe& recipe) {
  if (arguments.overfit > 0)
    return [&](Config& config, const std::optional<DataSize>& size) {
      // A few images need the recipe's learning rate, not one in proportion to their number.
      const Config own = resolve_config(parse_config(recipe.text, recipe.name));
      config.mutable_optimizer()->set_learning_rate(own.optimizer().learning_rate());
      overfit(config, arguments.overfit, size ? size->images : arguments.overfit, arguments.quick,
              arguments.set);
    };
  if (arguments.init_from.empty() || arguments.official_recipe || arguments.data.empty()) return {};
  return [&](Config& config, const std::optional<DataSize>& size) {
    if (size) config = fine_tuned(config, *size, arguments.set, arguments.quick);
  };
}

// Returns the recipe with the edits; adds remarks to notes.
Config chosen_config(const TrainArguments& arguments, std::vector<std::string>& notes) {
  const bool has_weights = arguments.resume || !arguments.init_from.empty();
  if (!arguments.model.empty() && !arguments.resume) {
    const Recipe& recipe = find_recipe(arguments.model, "--model");
    const FittedRecipe fitted = fit_recipe(recipe, {arguments.data, arguments.classes}, arguments.set,
                                           has_weights, arguments.quick, further_fit(arguments, recipe));
    notes.push_back(fmt::format("recipe {}: {}", recipe.name, recipe.title()));
    for (const std::string& note : fitted.notes) notes.push_back("  " + note);
    if (arguments.overfit == 0 && !fitted.further.empty())
      notes.push_back(fmt::format("fine-tuning on {}; --official-recipe keeps the published settings:",
                                  count_of(fitted.size.value().images, "image", "images")));
    for (const std::string& note : fitted.further)
      notes.push_back(fmt::format("  {}{}", note, arguments.overfit > 0 ? kOfOverfit : ""));
    return fitted.config;
  }
  // A resumed run's own file was written by the program and may be older.
  const Config read = load_config(recipe_file(arguments), {}, arguments.config.empty() ? nullptr : &notes);
  Config config = read;
  for (const FlagEdit& edit : flag_edits(read, arguments.quick, arguments.resume)) {
    apply_set(config, edit.assignment);
    notes.push_back(fmt::format("{}: {}", edit.flag, edit.assignment));
  }
  for (const std::string& set : arguments.set) apply_set(config, set, &notes);
  use_data(config, {arguments.data, arguments.classes});
  if (!arguments.model.empty()) check_resumed_model(arguments, config);
  for (std::string& warning : config_warnings(read, config, has_weights)) notes.push_back(std::move(warning));
  // The configuration of a run that goes on has this already.
  if (arguments.overfit > 0 && (!arguments.resume || !arguments.config.empty())) {
    const Config before = resolve_config(config);
    overfit(config, arguments.overfit, arguments.overfit, arguments.quick, arguments.set);
    for (const ConfigChange& change : config_changes(before, resolve_config(config)))
      notes.push_back(fmt::format("  {}{}", change.to_string(), kOfOverfit));
  }
  return config;
}

// With --resume, --overfit must be that of the run.
void check_resumed_overfit(const TrainArguments& arguments) {
  std::error_code error;
  if (!arguments.resume || arguments.overfit == 0 || !fs::exists(own_config(arguments), error)) return;
  const int64_t began = load_config(own_config(arguments)).data().overfit();
  if (began != arguments.overfit)
    fail_input("--overfit {}: the run in {} began {}; give another --output, without --resume, for a new run",
               arguments.overfit, arguments.output,
               began > 0 ? fmt::format("with --overfit {}", began) : "without --overfit");
}

// Throws InputError if a flag and --set give one field different values.
void check_sets(const TrainArguments& arguments) {
  std::vector<NamedField> flags = named_fields(arguments.quick, {arguments.data, arguments.classes});
  if (arguments.overfit > 0)
    flags.push_back(
        {fmt::format("--overfit {}", arguments.overfit), fmt::format("data.overfit={}", arguments.overfit)});
  refuse_conflicts(flags, arguments.set);
}

Config configuration(const TrainArguments& arguments, Device device, std::vector<std::string>& notes) {
  const NamePatterns checked(arguments.freeze, kFreeze);
  check_sets(arguments);
  check_resumed_overfit(arguments);
  Config config = chosen_config(arguments, notes);
  // --max-steps stops a run early; it is the planned length only if the configuration has none.
  bool endless = config.train().epochs() <= 0 && config.train().max_steps() <= 0;
  if (arguments.max_steps > 0 && endless) config.mutable_train()->set_max_steps(arguments.max_steps);
  // Placed before the groups of the recipe, since the first match counts.
  config::Optimizer groups;
  for (const std::string& regex : arguments.freeze) {
    config::ParameterGroup& group = *groups.add_group();
    group.set_regex(regex);
    group.set_frozen(true);
  }
  // Omits those that a resumed run already has.
  for (const config::ParameterGroup& group : config.optimizer().group())
    if (!group.frozen() || std::ranges::find(arguments.freeze, group.regex()) == arguments.freeze.end())
      *groups.add_group() = group;
  config.mutable_optimizer()->mutable_group()->Swap(groups.mutable_group());
  validate_for_training(config);
  if (std::string note = resolve_precision(config, device, arguments.resume ? arguments.output : "");
      !note.empty())
    notes.push_back(std::move(note));
  if (std::string note = note_on_exact_precision(config, device); !note.empty())
    notes.push_back(std::move(note));
  return resolve_config(config);
}

// Returns runs/NAME-1, or the first such folder that does not exist yet.
std::string new_run_folder(const TrainArguments& arguments) {
  if (arguments.resume) fail_input("--resume needs --output: the folder of the run to continue");
  const std::string name =
      arguments.model.empty() ? fs::path(arguments.config).stem().string() : arguments.model;
  std::error_code error;
  for (int n = 1;; ++n)
    if (std::string folder = fmt::format("runs/{}-{}", name, n); !fs::exists(folder, error)) return folder;
}

std::string minutes_over(double minutes) {
  return minutes == 1 ? "the minute is" : fmt::format("the {} minutes are", minutes);
}

// Returns the command that continues the run, whose configuration is in its folder.
std::string resume_command(const TrainArguments& arguments, bool same_end) {
  std::string command =
      "saccade train --output " + shell_word(arguments.output) + " --resume" + process_flags(arguments);
  if (same_end && arguments.max_steps > 0) command += fmt::format(" --max-steps {}", arguments.max_steps);
  return command;
}

std::string describe_stop(const TrainArguments& arguments, const Config& config,
                          const TrainingResult& result) {
  const char* to_continue = "; to continue:";
  switch (result.reason) {
    case StopReason::kComplete:
      return "";
    case StopReason::kStep:
      return fmt::format("stopped after step {} (--max-steps){} {}", result.step, to_continue,
                         resume_command(arguments, false));
    case StopReason::kTime:
      return fmt::format("stopped after step {}: {} over (train.max_minutes){} {}", result.step,
                         minutes_over(config.train().max_minutes()), to_continue,
                         resume_command(arguments, true));
    case StopReason::kPatience:
      return fmt::format(
          "stopped after step {}: {} has not improved for {} (train.patience){} {} --set train.patience=0",
          result.step, result.best_name, count_of(config.train().patience(), "evaluation", "evaluations"),
          to_continue, resume_command(arguments, true));
    case StopReason::kSignal:
      break;
  }
  return fmt::format("stopped by {} after step {}, which is saved{} {}",
                     signal_name(asked_signal(result.signal)), result.step, to_continue,
                     resume_command(arguments, true));
}

// Trains in the folder; returns the exit status.
int train_in(RunFolder& folder, const TrainArguments& arguments, const TrainerOptions& options,
             const std::vector<std::string>& notes) {
  const Config& config = options.config;
  if (!arguments.resume) {
    folder.refuse_run();
    if (process_group().is_first())
      check_outputs(
          {{"the configuration of the run", folder.config()}, {"the metrics of the run", folder.metrics()}},
          {{"--config", arguments.config}});
  }
  if (!arguments.init_from.empty()) open_weights(arguments.init_from, arguments.key);
  std::unique_ptr<TrainingTask> task = task_of(config).training(config);
  NamePatterns frozen(arguments.freeze, kFreeze);
  for (const NamedTensor& p : task->model().parameters()) frozen.match(p.name);
  frozen.finish("parameter of the model");
  check_interrupt();
  task->model().set_recompute({config.train().recompute().begin(), config.train().recompute().end()},
                              "train.recompute");
  Progress console;
  auto say = [&](const std::string& line) {
    if (!line.empty() && !options.quiet) console.message(line);
  };
  for (const std::string& note : notes) say(note);
  const TrainingResult result = train(options, *task, folder);
  say(describe_stop(arguments, config, result));
  std::string end = fmt::format("{}: {}", arguments.output, count_of(result.step, "step", "steps"));
  if (result.best_step >= 0)
    end +=
        fmt::format(", best {} {:.4f} after step {}", result.best_name, result.best_metric, result.best_step);
  say(end);
  return result.reason == StopReason::kSignal ? 128 + result.signal : 0;
}

}  // namespace

namespace {

// Divides this machine's processors, unless the user or the launcher has given each process its own.
void divide_threads(int processes) {
  const int available = available_processors();
  if (std::getenv("OMP_NUM_THREADS") || thread_count() != available) return;
  if (available * processes > static_cast<int>(std::thread::hardware_concurrency()))
    set_thread_count(std::max(1, available / processes));
}

int train_as_one_rank(const TrainArguments& given) {
  TrainArguments arguments = given;
  ProcessGroup& group = process_group();
  if (!arguments.model.empty() && !arguments.config.empty())
    fail_input("--model and --config cannot be combined");
  if (arguments.output.empty())
    arguments.output = group.exchange(group.is_first() ? new_run_folder(arguments) : "")[0];
  if (arguments.resume && !arguments.init_from.empty())
    fail_input("--init-from and --resume cannot be combined: one starts a new run, the other continues one");
  if (arguments.reinit_heads && arguments.init_from.empty())
    fail_input("--reinit-heads needs --init-from: it leaves the class heads out of what is loaded");
  if (arguments.official_recipe && (arguments.init_from.empty() || arguments.model.empty()))
    fail_input("--official-recipe needs --init-from and --model: other runs follow their recipe anyway");
  if (!arguments.key.empty() && arguments.init_from.empty())
    fail_input("--key needs --init-from: it names the entry to read from that file");
  TrainerOptions options;
  const DeviceChoice choice = choose_device(arguments.device, group.ranks());
  options.device = choice.device;
  std::vector<std::string> notes;
  options.config = configuration(arguments, choice.device, notes);
  // Weights are only fetched for a usable configuration and data.
  if (!arguments.init_from.empty())
    arguments.init_from =
        weights_file("--init-from", given.init_from, arguments.model, arguments.quiet || !group.is_first());
  notes.insert(notes.begin(), {choice.notice, given.output.empty() ? "run folder: " + arguments.output : ""});
  if (!group.alone()) notes.insert(notes.begin(), group.ranks().to_string());
  options.output = arguments.output;
  options.resume = arguments.resume;
  options.init_from = arguments.init_from;
  options.init_key = arguments.key;
  options.heads = arguments.reinit_heads    ? ClassHeads::kReinitialize
                  : arguments.model.empty() ? ClassHeads::kTake
                                            : ClassHeads::kTakeIfSame;
  options.stop_at_step = arguments.max_steps;
  options.quiet = arguments.quiet || !group.is_first();
  options.trial_batch = arguments.trial_batch == "on"    ? TrialBatch::kOn
                        : arguments.trial_batch == "off" ? TrialBatch::kOff
                                                         : TrialBatch::kAuto;
  RunFolder folder(arguments.output, group.is_first());
  return train_in(folder, arguments, options, notes);
}

}  // namespace

int run_train(const TrainArguments& arguments) {
  if (arguments.processes > 0) {
    const RankFlags& own = arguments.ranks;
    for (const auto& [flag, is_given] :
         {std::pair{"--rank", own.rank >= 0}, std::pair{"--ranks", own.size >= 0},
          std::pair{"--local-rank", own.local_rank >= 0}, std::pair{"--master", !own.master.empty()}})
      if (is_given)
        fail_input("{} and --processes cannot be combined: the latter numbers its processes itself", flag);
    return launch_processes(arguments);
  }
  InterruptScope signals;
  const Ranks ranks = find_ranks(arguments.ranks, [](const char* name) { return std::getenv(name); });
  if (!ranks.warning.empty() && !arguments.quiet) print_line(ranks.warning);
  auto train_or_stop = [&] {
    try {
      return train_as_one_rank(arguments);
    } catch (const Interrupted&) {
      const int status = 128 + interrupt_signal();
      const std::string line = fmt::format("stopped by {} before any step was done",
                                           signal_name(asked_signal(interrupt_signal())));
      if (process_group().is_first()) Progress().message(line);
      process_group().fail(line, status);
      if (!process_group().alone()) {
        std::fflush(nullptr);
        std::_Exit(status);  // finish() would wait for ranks that were told to end
      }
      return status;
    }
  };
  check_launched(ranks.size);
  if (ranks.size == 1) return train_or_stop();
  divide_threads(std::max(1, ranks.local_size));
  try {
    join_processes(ranks, choose_device(arguments.device, ranks).device);
    const int status = train_or_stop();
    process_group().finish();
    leave_processes();
    return status;
  } catch (...) {
    // Another rank waiting for this one would wait forever.
    const CommandFailure failure = current_failure(true);
    process_group().fail(failure.line, failure.status);
    print_error(failure.line);
    std::_Exit(failure.status);  // a thread may still wait for the others
  }
}

}  // namespace saccade
