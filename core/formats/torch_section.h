// Which dictionary of a .pth file holds the weights.
#pragma once

#include <string>

#include "core/formats/pickle.h"

namespace saccade {

// The dictionary at `key`, as "ema.module"; without one the first that has tensors of "ema.module",
// "model_ema", "model", "state_dict" and "module" in the file's dictionary, and that dictionary itself.
// `section` becomes its key. Throws InputError that says what is there instead.
const PickleNode& torch_section(const PickleGraph& graph, const std::string& path, const std::string& key,
                                std::string& section);

}  // namespace saccade
