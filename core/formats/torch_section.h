// Finds the dictionary of a .pth file that holds the weights.
#pragma once

#include <string>

#include "core/formats/pickle.h"

namespace saccade {

// Returns the dictionary at `key`, such as "ema.module". Without a key, returns the first that has tensors
// among "ema.module", "model_ema", "model", "state_dict" and "module" of the file's dictionary, and that
// dictionary itself. `section` is set to its key. Throws InputError that says what is there instead.
const PickleNode& torch_section(const PickleGraph& graph, const std::string& path, const std::string& key,
                                std::string& section);

}  // namespace saccade
