// Weights of models that are not here, by names that only they have.
#pragma once

#include <string>

#include "core/formats/weights_file.h"

namespace saccade {

// What to call them: "weights of Conditional DETR, a model that is not here"; "" for all others.
std::string foreign_model(const WeightsFile& file);

}  // namespace saccade
