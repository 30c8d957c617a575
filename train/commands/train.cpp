// saccade train: from a recipe and data sets to checkpoints.
#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "models/build.h"
#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/criterion.h"
#include "train/device_choice.h"
#include "train/evaluator.h"
#include "train/load_detector.h"
#include "train/options.h"
#include "train/trainer.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

Config configuration(const TrainArguments& arguments) {
  Config config = load_config(arguments.config);
  for (const std::string& set : arguments.set) apply_set(config, set);
  // --max-steps stops a run early; it is its planned length only where the configuration has none.
  bool endless = config.train().epochs() <= 0 && config.train().max_steps() <= 0;
  if (arguments.max_steps > 0 && endless) config.mutable_train()->set_max_steps(arguments.max_steps);
  validate_for_training(config);
  return resolve_config(config);
}

std::shared_ptr<const CocoDataset> load_split(const config::Split& split) {
  return std::make_shared<const CocoDataset>(CocoDataset::load(split.annotations(), split.images()));
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
  choose_device(arguments.device);
  TrainerOptions options;
  options.config = configuration(arguments);
  options.output = arguments.output;
  options.resume = arguments.resume;
  options.init_from = arguments.init_from;
  options.stop_at_step = arguments.max_steps;
  const Config& config = options.config;
  fs::path last = fs::path(arguments.output) / "checkpoints/last.safetensors";
  if (fs::exists(last) && !arguments.resume)
    fail_input("{}: holds a run already, expected a new folder, or --resume to continue it",
               arguments.output);
  if (fs::exists(arguments.output) && !fs::is_directory(arguments.output))
    fail_input("{}: is a file, expected a folder", arguments.output);
  if (!arguments.init_from.empty()) SafetensorsReader readable(arguments.init_from);

  auto train_set = load_split(config.data().train());
  int64_t classes =
      config.model().num_classes() > 0 ? config.model().num_classes() : train_set->num_classes();
  if (classes < train_set->num_classes())
    fail_input("model.num_classes: {} for {} categories in {}, expected at least as many", classes,
               train_set->num_classes(), train_set->annotations_path());
  if (train_set->empty_boxes() > 0)
    fmt::print("{}: {} boxes without area inside their image are left out\n", train_set->annotations_path(),
               train_set->empty_boxes());

  TrainingTask task;
  task.model = build_detector(model_args(config), logit_columns(config, classes));
  task.model->set_recompute(
      {config.train().checkpoint_modules().begin(), config.train().checkpoint_modules().end()});
  task.class_names = train_set->class_names();
  task.category_ids = train_set->category_ids();
  task.batches_per_epoch = DataLoader(train_set, train_loader(config)).batches_per_epoch();
  task.open_batches = [&](int64_t epoch, int64_t batch) -> std::function<Batch()> {
    LoaderOptions loader = train_loader(config);
    loader.start_epoch = epoch;
    loader.start_batch = batch;
    auto source = std::make_shared<DataLoader>(train_set, loader);
    return [source] { return std::move(*source->next()); };
  };
  SetCriterion criterion(criterion_options(config));
  task.loss = [&](const DetectorOutput& output, const std::vector<Target>& targets, double objects) {
    CriterionResult result = criterion.forward(output, targets, objects);
    return TrainingLoss{result.total, result.parts, result.figures};
  };
  if (config.data().has_val()) {
    auto val_set = load_split(config.data().val());
    check_categories(*val_set, task.category_ids, task.class_names, "the training set");
    EvaluatorOptions evaluator = evaluator_options(config);
    task.evaluate = [val_set, evaluator, ids = task.category_ids](Detector& model) {
      std::vector<Detection> detections = detect(model, val_set, ids, evaluator);
      return named_figures(evaluate_coco(ground_truth_of(*val_set), detections));
    };
  }
  FreshFolder fresh(arguments.output);
  TrainingResult result = train(options, task);
  fmt::print("{}: {} steps", arguments.output, result.step);
  if (result.best_step >= 0) fmt::print(", best AP {:.4f} after step {}", result.best_ap, result.best_step);
  fmt::print("\n");
  return 0;
}

}  // namespace saccade
