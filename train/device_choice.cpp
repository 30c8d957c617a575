#include "train/device_choice.h"

#include "core/error.h"

namespace saccade {

Device choose_device(const std::string& name) {
  // The GPU backend has no tuned kernels yet: who wants it, names it.
  if (name == "auto" || name == "cpu") return Device::kCpu;
  if (name == "cuda" && cuda_problem().empty()) return Device::kCuda;
  if (name == "cuda") fail_input("--device cuda: {}; expected auto or cpu", cuda_problem());
  fail_input("--device {}: not known, expected auto, cpu or cuda", name);
}

}  // namespace saccade
