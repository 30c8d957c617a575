#include "train/config/task.h"

#include "models/build.h"

namespace saccade {

Registry<RegisteredTask>& tasks() {
  static Registry<RegisteredTask> registry("task");
  return registry;
}

const std::string& task_name(const Config& config) {
  return model_types().find(config.model().type(), "model.type").task;
}

const Task& task_of(const Config& config) { return *tasks().find(task_name(config)).task; }

}  // namespace saccade
