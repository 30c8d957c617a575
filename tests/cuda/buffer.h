// Shared by the emulator's own tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/runtime/cuda/api.h"

namespace saccade {

// Device memory of n floats, all of them written.
struct Buffer {
  explicit Buffer(int n, bool written = true) : count(n) {
    EXPECT_EQ(cudaMallocAsync(&data, static_cast<size_t>(n) * sizeof(float), cuda::stream()), cudaSuccess);
    if (!written) return;
    EXPECT_EQ(cudaMemsetAsync(data, 0, static_cast<size_t>(n) * sizeof(float), nullptr), cudaSuccess);
  }
  ~Buffer() { EXPECT_EQ(cudaFreeAsync(data, nullptr), cudaSuccess); }
  float* get() const { return static_cast<float*>(data); }
  std::vector<float> read() const {
    std::vector<float> out(static_cast<size_t>(count));
    EXPECT_EQ(cudaMemcpyAsync(out.data(), data, out.size() * sizeof(float), cudaMemcpyDeviceToHost, nullptr),
              cudaSuccess);
    return out;
  }
  void* data = nullptr;
  int count;
};

inline void expect_report(const std::string& report, const std::string& part) {
  EXPECT_NE(report.find(part), std::string::npos) << "report: " << report;
}

}  // namespace saccade
