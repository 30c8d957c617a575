// Whether the machine has the memory that a training certainly needs.
#pragma once

#include "layers/module.h"
#include "train/config/config.h"

namespace saccade {

// Throws InputError when what follows the model's weights, gradients, optimizer state, averages and the
// images of a step, exceeds what is left: before it is taken. Activations come on top, and are not foreseen.
// On a GPU only images count.
void check_memory_need(const Config& config, const Module& model, Device device);

}  // namespace saccade
