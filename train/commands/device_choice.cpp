#include "train/commands/device_choice.h"

#include "core/runtime/gpu.h"
#include "core/tensor/error.h"

namespace saccade {

DeviceChoice choose_device(const std::string& name) {
  if (name == "cpu") return {Device::kCpu, ""};
  const bool usable = cuda_problem().empty();
  if (name == "cuda" && usable) return {Device::kCuda, ""};
  if (name == "cuda") fail_input("--device cuda: {}; expected auto or cpu", cuda_problem());
  if (name != "auto") fail_input("--device {}: not known, expected auto, cpu or cuda", name);
  if (!usable) return {Device::kCpu, fmt::format("running on the CPU: {}", cuda_problem())};
  // The emulated GPU is correct but slow, so it has to be asked for by name.
  return {cuda_is_emulated() ? Device::kCpu : Device::kCuda, ""};
}

}  // namespace saccade
