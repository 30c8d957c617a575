// --device.
#pragma once

#include <string>

#include "core/tensor/device.h"

namespace saccade {

struct DeviceChoice {
  Device device;
  std::string notice;  // a line for stdout when the work begins: why "auto" is not the GPU; else ""
};

// "auto" is the GPU when it can be used, else the CPU; "cuda:1" is the second GPU, for a choice made before anything asks for one. Throws InputError for a device that is unknown or
// cannot be used, with the reason.
DeviceChoice choose_device(const std::string& name);

}  // namespace saccade
