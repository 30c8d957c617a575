#include "train/device_choice.h"

#include "core/error.h"

namespace saccade {

Device choose_device(const std::string& name) {
  if (name == "auto" || name == "cpu") return Device::kCpu;
  if (name == "cuda") fail_input("--device cuda: this build has no CUDA backend, expected auto or cpu");
  fail_input("--device {}: not known, expected auto, cpu or cuda", name);
}

}  // namespace saccade
