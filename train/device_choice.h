// --device.
#pragma once

#include <string>

#include "core/device.h"

namespace saccade {

// "auto" is the CPU as long as the GPU backend has no tuned kernels. Throws InputError for a device that is
// unknown or cannot be used, with the reason.
Device choose_device(const std::string& name);

}  // namespace saccade
