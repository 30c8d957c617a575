// Training a detector: the COCO data sets, the set criterion and the COCO metrics of a configuration.
#pragma once

#include "train/config/config.h"
#include "train/loop/training_task.h"

namespace saccade {

// Builds the model and opens the data sets. Throws InputError for what the configuration or the data sets
// lack.
std::unique_ptr<TrainingTask> make_detection_task(const Config& config);

}  // namespace saccade
