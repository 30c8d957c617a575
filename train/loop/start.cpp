// The start of a run: from scratch, from other weights, or from its newest whole checkpoint.
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "core/files/text.h"
#include "core/tensor/execution.h"
#include "models/build.h"
#include "models/weights/inference.h"
#include "models/weights/weight_names.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/init_from.h"
#include "train/config/config.h"
#include "train/config/options.h"
#include "train/loop/training_run.h"

namespace saccade {
namespace {

// What a file says about the conventions of a part of the model: in its configuration, for our checkpoints,
// or by its names. Nothing unless it belongs to a model with this part.
struct FileConventions {
  std::string value, of;
};
std::optional<FileConventions> conventions_in(const WeightsFile& file, const std::string& part,
                                              const Args& given) {
  if (file.metadata().contains("saccade.config")) {
    const Config own = resolve_config(
        parse_config(file.metadata().at("saccade.config"), file.path() + ": its configuration"));
    if (!model_types().find(own.model().type()).reads(part)) return std::nullopt;
    return FileConventions{model_args(own).get_section(part).get_string("conventions"),
                           "a checkpoint with other conventions"};
  }
  const OfficialWeights weights = official_weights(file);
  const std::string field = fmt::format("model.{}.conventions", part);
  for (const auto& [name, spec] : model_types().all()) {
    if (!spec.infer || !spec.reads(part)) continue;
    Inference inference(file, weights, given);
    try {
      if (!spec.infer(inference)) continue;
    } catch (const InputError&) {
      continue;  // the weights of another model
    }
    for (const auto& [known, value] : inference.fields)
      if (known == field) return FileConventions{value, "weights of a " + weights.naming};
    return std::nullopt;
  }
  return std::nullopt;
}

// Weights trained with other conventions would load without an error but predict poorly: what a file of such
// a model, or of one that shares its heads, says about its conventions must match the configuration.
void check_conventions(const std::string& path, const std::string& key, const Config& config) {
  const ModelSpec& spec = model_types().find(config.model().type());
  const Args given = model_args(config);
  const auto part = std::ranges::find_if(
      spec.parts, [&](const auto& name) { return given.get_section(name).has("conventions"); });
  if (part == spec.parts.end()) return;  // weights of other models have only one meaning
  const std::string own = given.get_section(*part).get_string("conventions");
  const std::unique_ptr<WeightsFile> file = open_weights(path, key);
  if (!other_version(*file).empty()) return;  // which is refused elsewhere
  if (const auto theirs = conventions_in(*file, *part, given); theirs && theirs->value != own)
    fail_input("{}: {}, but model.{}.conventions is {}, expected --set model.{}.conventions={}", path,
               theirs->of, *part, own, *part, theirs->value);
}

}  // namespace

void TrainingRun::start() {
  if (!options_.resume) folder_.refuse_run();
  std::optional<ResumePoint> from;
  if (options_.resume) from = folder_.resume_point();
  if (!from) folder_.refuse_others_files();
  info_.config = config_text(config_);
  info_.class_names = task_.class_names();
  info_.category_ids = task_.category_ids();
  info_.images = task_.images();
  info_.seed = config_.seed();
  info_.step = from ? from->info.step : 0;
  check_same_run();
  result_.best_name = best_metric();
  std::vector<ConfigChange> changes;
  if (from) changes = check_resumable(*from);
  check_memory_need(config_, model_, options_.device);
  model_.initialize(config_.seed());
  if (from) {
    load_model(*from->file, model_, false);
    check_weights(model_, from->file->path());
  } else if (!options_.init_from.empty()) {
    check_conventions(options_.init_from, options_.init_key, config_);
    for (const std::string& line :
         init_from(options_.init_from, model_, {options_.heads, task_.class_names(), options_.init_key})
             .lines())
      log_.message(options_.init_from + ": " + line);
  }
  {
    MemoryUseScope use(MemoryUse::kParameters);
    model_.to(options_.device);
  }
  optimizer_.emplace(model_.parameters(), config_.optimizer());
  if (config_.train().ema_decay() > 0)
    ema_.emplace(model_, config_.train().ema_decay(), config_.train().ema_tau());
  if (!group_.alone()) sum_.emplace(group_, optimizer_->parameters());
  folder_.remove_leftovers();
  if (from)
    resume(*from, changes);
  else if (options_.resume)
    log_.message(options_.output + ": there is no run to resume yet, so a new one starts");
  check_same_weights();
  result_.best_metric = info_.best_metric;
  result_.best_step = info_.best_step;
  result_.step = info_.step;
}

// The metric that decides which weights are best: larger is better.
std::string TrainingRun::best_metric() const {
  std::vector<std::string> names = task_.primary_metrics();
  std::erase(names, "loss");
  const std::string& wanted = config_.train().best_metric();
  if (names.empty()) {
    if (!wanted.empty() || config_.train().patience() > 0)
      fail_input("train.{}: nothing is evaluated, expected data.val",
                 wanted.empty() ? "patience" : "best_metric");
    return "";
  }
  if (wanted.empty()) return names.front();
  if (std::find(names.begin(), names.end(), wanted) == names.end())
    fail_input("train.best_metric: \"{}\" is not known, expected one of {}", wanted, fmt::join(names, ", "));
  return wanted;
}

void TrainingRun::describe() {
  std::string line;
  if (task_.image_count() > 0)
    line = fmt::format("{}, {}; ", count_of(task_.image_count(), "image", "images"),
                       count_of(std::ssize(task_.class_names()), "class", "classes"));
  const int64_t all = model_.parameter_count(), trained = model_.parameter_count(true);
  line += fmt::format("{} with {} parameters{}; ", config_.model().type(), all,
                      trained == all ? "" : fmt::format(", {} of them trained", trained));
  line += fmt::format("{} of {} per epoch", count_of(plan_.batches_per_epoch, "batch", "batches"),
                      config_.data().batch_size());
  if (plan_.accumulate > 1) line += fmt::format(", {} per step", plan_.accumulate);
  if (plan_.total_steps < TrainingPlan::kNoLimit) line += "; " + count_of(plan_.total_steps, "step", "steps");
  line += fmt::format("; learning rate {:g} ({}, {})", config_.optimizer().learning_rate(),
                      config_.optimizer().type(), config_.schedule().type());
  log_.message(line);
}

std::vector<ConfigChange> TrainingRun::check_resumable(const ResumePoint& from) const {
  const std::string& path = from.file->path();
  const CheckpointInfo& old = from.info;
  const std::string remedy =
      fmt::format("a new run in another --output (--init-from {} keeps the weights)", path);
  std::vector<ConfigChange> changes =
      config_changes(resolve_config(parse_config(old.config, path + ": its configuration")), config_);
  std::vector<std::string> breaking;
  for (const ConfigChange& c : changes)
    if (c.breaks_resume) breaking.push_back(c.to_string());
  if (!breaking.empty())
    fail_input("{}: a run that continues cannot change {}; leave {} as {}, or start {}", options_.output,
               fmt::join(breaking, ", "), breaking.size() == 1 ? "it" : "them",
               breaking.size() == 1 ? "it was" : "they were", remedy);
  if (old.category_ids != info_.category_ids || old.class_names != info_.class_names)
    fail_input(
        "{}: checkpoint of another data set: its classes are {}, not {}; expected those of the run, or {}",
        path, shortened(fmt::format("{}", fmt::join(old.class_names, ", ")), 200),
        shortened(old.class_names == info_.class_names
                      ? "of these category ids"
                      : fmt::format("{}", fmt::join(info_.class_names, ", ")),
                  200),
        remedy);
  // Older checkpoints do not name their images, but they count batches in epochs of that length.
  const bool same_epochs = old.epoch * plan_.batches_per_epoch + old.batch == old.step * plan_.accumulate;
  if ((!old.images.empty() && old.images != info_.images) || !same_epochs)
    fail_input("{}: the run was trained on other images ({}; now {}); expected the same training set, or {}",
               path, old.images.empty() ? "epochs of another length" : old.images,
               info_.images.empty() ? count_of(plan_.batches_per_epoch, "batch", "batches") + " an epoch"
                                    : info_.images,
               remedy);
  return changes;
}

// The changes since the run was last started: its older checkpoint need not include those made then.
std::vector<ConfigChange> TrainingRun::new_changes(const std::vector<ConfigChange>& since_checkpoint) const {
  try {
    return config_changes(resolve_config(load_config(folder_.config())), config_);
  } catch (const InputError&) {  // it is missing, or no longer a configuration
    return since_checkpoint;
  }
}

void TrainingRun::resume(const ResumePoint& from, const std::vector<ConfigChange>& changes) {
  load_training_state(*from.file, from.info, *optimizer_, ema());
  CheckpointInfo now = from.info;
  now.config = info_.config;
  now.images = info_.images;
  info_ = now;
  const int64_t batches = info_.step * plan_.accumulate;
  info_.epoch = batches / plan_.batches_per_epoch;
  info_.batch = batches % plan_.batches_per_epoch;
  for (const std::string& fault : from.skipped) log_.message("skipped " + fault);
  log_.message(fmt::format("resuming {} after step {}", options_.output, info_.step));
  if (info_.step >= plan_.total_steps)
    log_.message(fmt::format("its {} done; a larger train.epochs or train.max_steps continues it",
                             count_of(plan_.total_steps, "step is", "steps are all")));
  for (const ConfigChange& c : new_changes(changes)) log_.message("changed " + c.to_string());
  folder_.restore_best();
  const bool dropped = group_.exchange(log_.open(info_.step) ? "1" : "0")[0] == "1";
  folder_.write_config(info_.config);
  info_.evaluation_due = info_.evaluation_due || (dropped && plan_.evaluates(info_.step));
  folder_begun_ = true;
}

void TrainingRun::begin_folder() {
  folder_.save_last(model_, info_, *optimizer_, ema());
  folder_.write_config(info_.config);
  log_.open(-1);
  folder_begun_ = true;
}

}  // namespace saccade
