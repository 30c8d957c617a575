// Old names: a field that has moved keeps its old place in configs/saccade.proto, with the rule
// `moved_to` alone. What stands there is read as the field of today, in files, in the configurations of
// checkpoints and in --set.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace saccade {

// The path that a path of --set has today: "model.rt_detr.eval_layers" of "model.transformer.eval_layers";
// others as they are.
std::string path_of_today(const std::string& path);

// Moves what is set to its place of today. With a `file` it must not be set there too (InputError), and what
// has moved is a line of notes, where there are some; without one, of an edit,
// it replaces what is there.
void move_fields(Config& config, const std::string& file = "", std::vector<std::string>* notes = nullptr);

}  // namespace saccade
