// The devices on which a tensor can be. The CUDA device is found at run time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace saccade {

enum class Device : uint8_t { kCpu, kCuda };
inline constexpr int kDeviceCount = 2;

constexpr std::string_view name_of(Device device) { return device == Device::kCpu ? "cpu" : "cuda"; }

// Returns why Device::kCuda cannot be used, as one line, or "" if it can: a build without CUDA, no driver, no
// GPU, an old one, a missing library. The first call looks for them.
const std::string& cuda_problem();

}  // namespace saccade
