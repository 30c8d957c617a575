// The choice of the device, --device.
#pragma once

#include <string>

#include "core/distributed/ranks.h"
#include "core/tensor/device.h"

namespace saccade {

struct DeviceChoice {
  Device device;
  std::string notice;  // a line for stdout at the start that says why "auto" is not the GPU; else ""
};

// "auto" is the GPU if it can be used, else the CPU; "cuda:1" is the second GPU. A process uses only one GPU,
// the first that it asks for. Throws InputError, with the reason, for a device that is unknown or cannot be
// used; CUDA_VISIBLE_DEVICES is then as before.
DeviceChoice choose_device(const std::string& name);
// For one of several processes: "cuda" and "auto" mean the GPU of its local rank, or the only GPU that
// CUDA_VISIBLE_DEVICES leaves it.
DeviceChoice choose_device(const std::string& name, const Ranks& ranks);

}  // namespace saccade
