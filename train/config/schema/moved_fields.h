// Old names of fields: a field that has moved keeps its old place in configs/saccade.proto, with the rule
// `moved_to` alone. A value there is read as the current field, in files, in the configurations of
// checkpoints and in --set.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace saccade {

// Returns the current path for a path of --set: "model.rt_detr.eval_layers" for
// "model.transformer.eval_layers"; other paths stay as they are.
std::string path_of_today(const std::string& path);

// Moves values of old fields to their current place. With a `file`, the current field must not be set there
// too (InputError), and each move is a line of notes, if given; without one, for an edit, the moved value
// replaces the current one.
void move_fields(Config& config, const std::string& file = "", std::vector<std::string>* notes = nullptr);

}  // namespace saccade
