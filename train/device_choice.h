// --device.
#pragma once

#include <string>

#include "core/device.h"

namespace saccade {

// "auto" takes the GPU where there is one and the program can use it, else the CPU. Throws InputError for a
// device that is unknown or cannot be used.
Device choose_device(const std::string& name);

}  // namespace saccade
