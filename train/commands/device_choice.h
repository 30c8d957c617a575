// --device.
#pragma once

#include <string>

#include "core/tensor/device.h"

namespace saccade {

struct DeviceChoice {
  Device device;
  std::string notice;  // a line for stdout when the work begins: why "auto" is not the GPU; else ""
};

// "auto" is the GPU when it can be used, else the CPU; "cuda:1" is the second GPU. A process uses one, the first
// that it asks for. Throws InputError for a device that is unknown or cannot be used, with the reason; CUDA_VISIBLE_DEVICES is then as before.
DeviceChoice choose_device(const std::string& name);

}  // namespace saccade
