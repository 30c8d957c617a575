// The progress line of a command that works through a known number of things.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "train/logs/progress.h"

namespace saccade {

class ItemProgress {
 public:
  // Shows "label 120/4000 images, 310 images/s, 13 s left, 92 MB".
  ItemProgress(std::string label, int64_t total, std::string unit);

  // From any thread; a count below an earlier one is ignored.
  void update(int64_t done);
  // Ends with a line that stays: "label 4000 images, 310 images/s, 13 s".
  void finish();
  double seconds() const;

 private:
  std::string label_, unit_;
  int64_t total_, done_ = 0;
  std::chrono::steady_clock::time_point start_;
  Progress line_;
  std::mutex mutex_;
};

}  // namespace saccade
