// The classes that a classifier holds an image for, as commands and services write them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/types/instance.h"
#include "train/checkpoints/load_model.h"

namespace saccade {

// The first five of what ClassifierInferencer finds.
std::span<const Instance> best_classes(const std::vector<Instance>& classes);
// They as the elements of a JSON list.
std::string best_classes_json(const std::vector<Instance>& classes, const LoadedModel& model);

}  // namespace saccade
