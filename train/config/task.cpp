#include "train/config/task.h"

#include <filesystem>

#include "models/build.h"
#include "train/config/options.h"

namespace saccade {

std::optional<DataSize> Task::data_size(const Config& config) const {
  const config::Data& data = config.data();
  const std::string& list = data.train().annotations();
  const std::string& source = !data.folder().empty() ? data.folder()
                              : list.empty()         ? data.train().images()
                                                     : list;
  if (source.empty() || !std::filesystem::exists(source)) return std::nullopt;
  DataPaths paths = *data_splits(config).train;
  paths.look_at_images = false;
  const auto set = open_dataset(paths, label_scheme(config));
  return DataSize{set->num_classes(), set->num_images()};
}

void Task::check_classes(const Classes& classes, const std::string& checkpoint) const {
  if (classes.names.empty() || classes.names.size() != classes.ids.size())
    fail_input(
        "{}: damaged checkpoint: {} class names and {} category ids, expected one of each for every class",
        checkpoint, classes.names.size(), classes.ids.size());
}

Classes Task::unnamed_classes(int64_t count) const {
  Classes classes;
  for (int64_t k = 0; k < count; ++k) {
    classes.names.push_back(std::to_string(k));
    classes.ids.push_back(k);
  }
  return classes;
}

std::vector<std::string> Task::primary_metrics(const Config& config) const {
  return evaluator_of(config).primary;
}

const std::string& task_name(const Config& config) {
  return model_types().find(config.model().type(), "model.type").task;
}

const Task& task_of(const Config& config) { return *tasks().find(task_name(config)).task; }

}  // namespace saccade
