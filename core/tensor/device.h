// Where a tensor lives. The CUDA device is found at run time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace saccade {

enum class Device : uint8_t { kCpu, kCuda };
inline constexpr int kDeviceCount = 2;

constexpr std::string_view name_of(Device device) { return device == Device::kCpu ? "cpu" : "cuda"; }

// Why Device::kCuda cannot be used, in one line, or "" when it can: a build without CUDA, no driver, no GPU,
// an old one, a library that is missing. Looks for them at the first call.
const std::string& cuda_problem();

}  // namespace saccade
