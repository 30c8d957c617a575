// Objects that a detector has found, as commands and services write them.
#pragma once

#include <string>
#include <vector>

#include "core/types/instance.h"
#include "train/checkpoints/load_model.h"

namespace saccade {

// Which labels are shown: those that are named, by name or category id; all where none is. Throws InputError
// for one that the model lacks; `what` ("--classes: best.safetensors") begins its message.
std::vector<bool> shown_labels(const std::vector<std::string>& wanted, const LoadedModel& model,
                               const std::string& what);
// Members of a JSON object in COCO's form, with names for people: category_id, bbox, score, category.
std::string object_json(const Instance& found, const LoadedModel& model);
// Its mask as a further member, with a comma before it; "" where it has none.
std::string segmentation_json(const Instance& found);

}  // namespace saccade
