// How long a step took, for the log.
#pragma once

#include <chrono>

#include "core/runtime/gpu.h"
#include "core/types/metrics.h"

namespace saccade {

class StepTimer {
 public:
  explicit StepTimer(Device device)
      : device_(device),
        counts_before_(cuda_statistics()),
        allocations_before_(allocator(device).stats().requests) {}

  // The time since the last part, in ms.
  void end_part(const char* name) {
    const auto now = Clock::now();
    metrics_.emplace_back(name, milliseconds(now - part_start_));
    part_start_ = now;
  }
  // What was done since the last part is not the step's.
  void leave_out() {
    const auto now = Clock::now();
    start_ += now - part_start_;
    part_start_ = now;
    counts_before_ = cuda_statistics();
    allocations_before_ = allocator(device_).stats().requests;
  }
  // The parts, the whole, and on a GPU what was asked of it.
  Metrics metrics() const {
    Metrics out = metrics_;
    out.emplace_back("step_ms", milliseconds(Clock::now() - start_));
    if (device_ != Device::kCuda) return out;
    const CudaStatistics after = cuda_statistics();
    auto count = [&](const char* name, int64_t n) { out.emplace_back(name, static_cast<double>(n)); };
    count("launches", after.launches - counts_before_.launches);
    count("host_syncs", after.host_syncs - counts_before_.host_syncs);
    count("uploaded_bytes", after.uploaded_bytes - counts_before_.uploaded_bytes);
    count("allocations", allocator(device_).stats().requests - allocations_before_);
    return out;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double milliseconds(Clock::duration d) {
    return std::chrono::duration<double, std::milli>(d).count();
  }

  Device device_;
  CudaStatistics counts_before_;
  int64_t allocations_before_;
  Clock::time_point start_ = Clock::now(), part_start_ = start_;
  Metrics metrics_;
};

}  // namespace saccade
