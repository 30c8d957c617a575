// The kinds of task: detection, classification. A task registers itself from its own file; a model's type names its task
// (models/build.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/registry.h"
#include "data/formats/image_source.h"
#include "train/config/config.h"

namespace saccade {

class TrainingTask;  // train/loop/training_task.h

// The images that are trained on, and the names of their labels.
struct TrainingImages {
  std::shared_ptr<const ImageSource> images;
  std::vector<std::string> class_names;
};

struct DataSize {
  int64_t classes = 0, images = 0;
};

struct TaskSpec {
  std::string name;  // "detection"
  std::string file;
  // What a configuration must fulfil, beyond ranges, and a split of its data before training. Throw InputError.
  void (*check)(const Config& config);
  void (*check_split)(const std::string& field, const config::Split& split);
  // Builds the model and opens the data sets. Throws InputError for what the configuration or the data sets lack.
  std::unique_ptr<TrainingTask> (*make)(const Config& config);
  // The training set alone; what there is to say about it is added to notes. Throws InputError.
  TrainingImages (*open_images)(const Config& config, std::vector<std::string>& notes);
  // Of the training data, or, when it is not at hand, nothing.
  std::optional<DataSize> (*data_size)(const Config& config);
  int64_t usual_classes;      // in place of those
  const char* usual_dataset;  // whose number it is
  bool has_category_ids;      // its classes are categories with ids; else they have names only
};

Registry<TaskSpec>& training_tasks();
// Throws InputError when the model's type is not known.
const TaskSpec& task_of(const Config& config);

}  // namespace saccade
