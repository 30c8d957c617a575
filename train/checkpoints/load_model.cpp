#include "train/checkpoints/load_model.h"

#include <algorithm>
#include <filesystem>

#include "core/files/text.h"
#include "core/tensor/execution.h"
#include "core/tensor/memory.h"
#include "models/not_finite.h"
#include "train/checkpoints/checkpoint.h"
#include "train/config/options.h"
#include "train/config/quick_flags.h"
#include "train/config/recipes.h"
#include "train/config/schema/config_changes.h"
#include "train/config/task.h"
#include "train/config/text.h"

namespace saccade {

namespace {

// Prefixes errors in the configuration with the file's name.
template <class F>
auto with_name(const std::string& checkpoint, F&& f) {
  try {
    return f();
  } catch (const InputError& e) {
    fail_input("{}: its configuration: {}", checkpoint, e.what());
  }
}

// Returns the number of classes of the model.
int64_t check_classes(const LoadedModel& loaded, const std::string& checkpoint) {
  task_of(loaded.config).check_classes({loaded.class_names, loaded.category_ids}, checkpoint);
  const int64_t classes = loaded.config.model().num_classes();
  if (classes > 0 && classes < std::ssize(loaded.class_names))
    fail_input("{}: its configuration: model.num_classes: {} for {}, expected at least that many", checkpoint,
               classes, count_of(std::ssize(loaded.class_names), "class name", "class names"));
  return classes > 0 ? classes : std::ssize(loaded.class_names);
}

}  // namespace

std::shared_ptr<Module> sketch_model(const BuildArgs& args, int64_t classes) {
  ExecutionScope scope;
  execution().sketch = true;
  return build_model(args.model, classes, args.criterion);
}

std::shared_ptr<Module> build_model(const Config& config, int64_t classes) {
  const BuildArgs args = build_args(config);
  const double needed = sketch_model(args, classes)->tensor_bytes();
  const auto available = static_cast<double>(available_memory());
  if (needed > available)
    fail_input("model: its parameters need {:.1f} GB, but {:.1f} GB of memory are available", needed / 1e9,
               available / 1e9);
  return build_model(args.model, classes, args.criterion);
}

namespace {

// Applies the edits that inference permits to a checkpoint's configuration.
void edit_for_inference(Config& config, const std::vector<std::string>& sets) {
  const Config before = resolve_config(config);
  for (const std::string& set : sets) {
    apply_set(config, set);
    check_parts(config.model());
    for (const ConfigChange& change : config_changes(before, resolve_config(config)))
      if (!change.of_inference)
        fail_input(
            "--set {}: {} is fixed by the checkpoint's training; expected a field that affects only inference: {}",
            shortened(set), change.field, inference_fields());
  }
  validate_config(config);
}

}  // namespace

LoadedModel load_trained_model(const std::string& checkpoint, Device device, const std::string& precision,
                               std::vector<std::string> sets, int64_t image_size) {
  std::error_code error;
  if (!std::filesystem::exists(checkpoint, error) && !error)
    fail_input("{}: no such file, expected a checkpoint (*.safetensors) that saccade train wrote",
               checkpoint);
  SafetensorsReader file(checkpoint);
  CheckpointInfo info = read_checkpoint_info(file);
  LoadedModel loaded;
  loaded.class_names = info.class_names;
  loaded.category_ids = info.category_ids;
  loaded.config = parse_config(info.config, checkpoint + ": its configuration");
  with_name(checkpoint, [&] { validate_config(loaded.config); });
  const std::vector<std::string> given = sets;
  if (!precision.empty()) {
    sets.push_back("precision=" + precision);
    refuse_conflicts({{"--precision " + precision, sets.back()}}, given);
  }
  const std::vector<std::string> size = size_edits(loaded.config, image_size);
  sets.insert(sets.begin(), size.begin(), size.end());
  if (!sets.empty()) edit_for_inference(loaded.config, sets);
  if (!given.empty())
    for (const IdleField& idle : idle_fields(resolve_config(loaded.config)))
      if (is_set(given, idle.field)) loaded.notes.push_back(idle.note);
  resolve_precision(loaded.config, device);
  if (std::string note = note_on_exact_precision(loaded.config, device); !note.empty())
    loaded.notes.push_back(std::move(note));
  const int64_t classes = check_classes(loaded, checkpoint);
  const BuildArgs args = with_name(checkpoint, [&] { return build_args(loaded.config); });
  // Refuses whatever does not fit the file's tensors before allocating memory for it; what fits needs no more
  // than the file.
  check_fits(file, *with_name(checkpoint, [&] { return sketch_model(args, classes); }));
  loaded.module = build_model(args.model, classes, args.criterion);
  load_model(file, *loaded.module);
  file.verify();
  check_weights(*loaded.module, checkpoint);
  loaded.module->to(device);
  loaded.module->set_training(false);
  return loaded;
}

void with_model_of(const std::string& checkpoint, ImageSize size, const char* less,
                   const std::function<void()>& run) {
  try {
    run();
  } catch (const NotFinite& error) {
    fail_input("{}: its weights are damaged, or come from a training that failed: {}", checkpoint,
               error.what());
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(
        fmt::format("{}: images of {} x {} pixels: {}; smaller ones, or fewer at a time, need less ({})",
                    checkpoint, size.height, size.width, error.what(), less));
  }
}

void check_categories(const Dataset& dataset, const std::vector<int64_t>& category_ids,
                      const std::vector<std::string>& class_names, const std::string& model) {
  const std::vector<int64_t>& known = dataset.category_ids();
  for (size_t k = 0; k < category_ids.size(); ++k) {
    if (class_names[k] == kNoCategory) continue;
    auto it = std::lower_bound(known.begin(), known.end(), category_ids[k]);
    if (it == known.end() || *it != category_ids[k])
      fail_input(
          "{}: has no category {} (\"{}\"), which {} detects; expected a data set with the same categories",
          dataset.name(), category_ids[k], class_names[k], model);
    const std::string& name = dataset.class_names()[static_cast<size_t>(it - known.begin())];
    if (name != class_names[k])
      fail_input("{}: category {} is \"{}\", but \"{}\" for {}; expected a data set with the same categories",
                 dataset.name(), category_ids[k], name, class_names[k], model);
  }
}

}  // namespace saccade
