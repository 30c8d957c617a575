#include "train/checkpoints/load_model.h"

#include <algorithm>
#include <filesystem>

#include "core/tensor/error.h"
#include "train/checkpoints/checkpoint.h"
#include "train/config/task.h"

namespace saccade {

std::shared_ptr<Module> build_model(const Config& config, int64_t classes) {
  const BuildArgs args = build_args(config);
  return build_model(args.model, classes, args.criterion);
}

LoadedModel load_trained_model(const std::string& checkpoint, Device device) {
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
  int64_t classes = loaded.config.model().num_classes();
  if (classes == 0) classes = static_cast<int64_t>(info.class_names.size());
  loaded.task = task_of(loaded.config).name;
  loaded.module = build_model(loaded.config, classes);
  load_model(file, *loaded.module);
  file.verify();
  loaded.module->to(device);
  loaded.module->set_training(false);
  return loaded;
}

void check_categories(const DetectionDataset& dataset, const std::vector<int64_t>& category_ids,
                      const std::vector<std::string>& class_names, const std::string& model) {
  const std::vector<int64_t>& known = dataset.category_ids();
  for (size_t k = 0; k < category_ids.size(); ++k) {
    if (class_names[k] == kNoCategory) continue;
    auto it = std::find(known.begin(), known.end(), category_ids[k]);
    if (it == known.end())
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
