// Where a tensor lives. The CUDA device is found at run time.
#pragma once

#include <cstdint>
#include <string_view>

namespace saccade {

enum class Device : uint8_t { kCpu, kCuda };
inline constexpr int kDeviceCount = 2;

constexpr std::string_view name_of(Device device) { return device == Device::kCpu ? "cpu" : "cuda"; }

}  // namespace saccade
