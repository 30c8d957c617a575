#include "train/inference/device_choice.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <regex>
#include <sstream>

#include "core/runtime/gpu.h"
#include "core/tensor/error.h"

namespace saccade {

namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

// Makes the GPU of that number the only one that CUDA shows to this program, so that threads and libraries
// cannot use another. Counts among the GPUs that CUDA_VISIBLE_DEVICES leaves, if it is set.
void show_only(size_t number, const std::optional<std::string>& visible) {
  std::string chosen = std::to_string(number);
  if (visible) {
    std::istringstream names(*visible);
    for (size_t i = 0; i <= number; ++i)
      if (!std::getline(names, chosen, ','))
        fail_input("--device cuda:{}: CUDA_VISIBLE_DEVICES shows only \"{}\"", number, *visible);
  }
  setenv(kVisible, chosen.c_str(), 1);
}

// Whether the launcher has assigned one GPU to this process alone, as Slurm does with --gpus-per-task.
bool has_own_gpu() {
  const char* visible = std::getenv(kVisible);
  return visible && *visible && !std::strchr(visible, ',');
}

// Whether this machine has NVIDIA's driver, also in a container with some of its GPUs and in WSL.
bool has_driver() { return std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg"); }

// Whether this process can use that GPU, or "the" GPU without a number. The first GPU asked for is the only
// one of the process, since CUDA reads CUDA_VISIBLE_DEVICES once.
bool take_gpu(const std::optional<size_t>& number) {
  static std::mutex mutex;
  static std::optional<size_t> taken;
  const std::lock_guard lock(mutex);
  if (taken && number && *number != *taken)
    fail_input("--device cuda:{}: this process already uses cuda:{}, expected the same GPU", *number, *taken);
  std::optional<std::string> visible;
  if (const char* text = std::getenv(kVisible)) visible = text;
  if (number && !taken) {
    // If another part of the process has started CUDA, its GPUs are fixed.
    if (const bool is_settled = cuda_is_running(); !is_settled)
      show_only(*number, visible);
    else if (*number > 0 || gpu_count() != 1)
      fail_input(
          "--device cuda:{}: this process has already used CUDA (visible GPUs: {}); expected cuda, the first of them, or "
          "CUDA_VISIBLE_DEVICES={} before the first use",
          *number, gpu_count(), *number);
  }
  const bool usable = cuda_problem().empty();
  if (usable && !taken) taken = number.value_or(0);
  if (!usable && visible) setenv(kVisible, visible->c_str(), 1);
  if (!usable && !visible) unsetenv(kVisible);
  return usable;
}

// Sets variables, unless the user has, before the first call of CUDA and NCCL.
void set_up_for_ranks() {
  // Otherwise the first launch of a kernel loads its code, which may wait for all work on the GPU: for
  // NCCL's, which waits for other ranks.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  // Two groups of sums are in flight, perhaps in a different order on another rank (NCCL 2.26 or newer).
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
}

// A rank that waits for each of its launches waits for those of other ranks, which may wait for another
// launch of this rank. Our variable is checked first, since it sets the driver's.
void refuse_blocking_launches() {
  for (const char* name : {"SACCADE_CUDA_SYNC", "CUDA_LAUNCH_BLOCKING"})
    if (const char* text = std::getenv(name); text && *text && std::strcmp(text, "0") != 0)
      fail_input(
          "{}={}: several ranks with GPUs would wait for each other forever, expected it to be unset or 0",
          name, text);
}

}  // namespace

DeviceChoice choose_device(const std::string& name) { return choose_device(name, {}); }

DeviceChoice choose_device(const std::string& name, const Ranks& ranks) {
  if (name == "cpu") return {Device::kCpu, ""};
  static const std::regex numbered("cuda:([0-9]{1,3})");
  std::smatch match;
  const bool is_numbered = std::regex_match(name, match, numbered);
  if (!is_numbered && name != "auto" && name != "cuda")
    fail_input("--device {}: not known, expected auto, cpu, cuda or cuda:NUMBER", name);
  std::optional<size_t> number;
  if (is_numbered) number = std::stoul(match[1]);
  const bool is_own = !is_numbered && ranks.size > 1 && !has_own_gpu();
  if (is_own) number = static_cast<size_t>(ranks.local_rank);
  if (ranks.size > 1) set_up_for_ranks();
  const bool usable = take_gpu(number);
  if (ranks.size > 1 && usable && !(name == "auto" && cuda_is_emulated())) refuse_blocking_launches();
  const auto missing = [&] {
    return is_own ? fmt::format("GPU {} for rank {}: {}", *number, ranks.rank, cuda_problem())
                  : cuda_problem();
  };
  if (name != "auto" && !usable) fail_input("--device {}: {}; expected auto or cpu", name, missing());
  if (name != "auto") return {Device::kCuda, ""};
  // Alone on the CPU, it would wait for the others in vain.
  if (!usable && is_own && *number > 0 && has_driver())
    fail_input("--device auto: {}; expected a GPU for each process of this machine, or --device cpu for all",
               missing());
  if (!usable) return {Device::kCpu, fmt::format("running on the CPU: {}", missing())};
  // The emulated GPU is correct but slow, so it must be named explicitly.
  return {cuda_is_emulated() ? Device::kCpu : Device::kCuda, ""};
}

}  // namespace saccade
