#include "train/config/task.h"

#include "models/build.h"

namespace saccade {

Registry<TaskSpec>& training_tasks() {
  static Registry<TaskSpec> registry("task");
  return registry;
}

const TaskSpec& task_of(const Config& config) {
  return training_tasks().find(model_types().find(config.model().type(), "model.type").task);
}

}  // namespace saccade
