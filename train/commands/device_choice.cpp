#include "train/commands/device_choice.h"

#include <cstdlib>
#include <regex>
#include <sstream>

#include "core/runtime/gpu.h"
#include "core/tensor/error.h"

namespace saccade {

namespace {

// The GPU of that number becomes the only one that CUDA shows to this program: threads and libraries cannot take another one. Of
// those that CUDA_VISIBLE_DEVICES leaves, where it is set.
void show_only(const std::string& number) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string chosen = number;
  if (visible) {
    std::istringstream names(visible);
    chosen.clear();
    for (size_t i = 0, wanted = std::stoul(number); i <= wanted; ++i)
      if (!std::getline(names, chosen, ','))
        fail_input("--device cuda:{}: CUDA_VISIBLE_DEVICES shows \"{}\" only", number, visible);
  }
  setenv("CUDA_VISIBLE_DEVICES", chosen.c_str(), 1);
}

}  // namespace

DeviceChoice choose_device(const std::string& name) {
  if (name == "cpu") return {Device::kCpu, ""};
  static const std::regex numbered("cuda:([0-9]{1,3})");
  std::smatch number;
  const bool is_numbered = std::regex_match(name, number, numbered);
  if (is_numbered) show_only(number[1]);
  const bool usable = cuda_problem().empty();
  if ((name == "cuda" || is_numbered) && usable) return {Device::kCuda, ""};
  if (name == "cuda" || is_numbered)
    fail_input("--device {}: {}; expected auto or cpu", name, cuda_problem());
  if (name != "auto") fail_input("--device {}: not known, expected auto, cpu, cuda or cuda:NUMBER", name);
  if (!usable) return {Device::kCpu, fmt::format("running on the CPU: {}", cuda_problem())};
  // The emulated GPU is correct but slow, so it has to be asked for by name.
  return {cuda_is_emulated() ? Device::kCpu : Device::kCuda, ""};
}

}  // namespace saccade
