// Computes the times of a video's frames from the time stamps of its file or stream.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace saccade {

// Times never go back. If the stamps do, as in recordings that were joined, the new part follows the last
// frame and keeps its own distances.
class FrameTimes {
 public:
  // The time of the next frame, in seconds. A frame without a stamp follows the one before it.
  double next(std::optional<double> stamp, double duration) {
    if (stamp && last_stamp_ && *stamp < *last_stamp_) {
      offset_ = end_ - *stamp;
      if (steps_back_++ == 0) first_step_back_ = frames_;
    }
    if (stamp) last_stamp_ = stamp;
    time_ = std::max(time_, stamp ? *stamp + offset_ : end_);
    end_ = time_ + duration;
    ++frames_;
    return time_;
  }

  // The end of the last frame.
  double end() const { return end_; }
  int64_t steps_back() const { return steps_back_; }
  int64_t first_step_back() const { return first_step_back_; }  // the number of a frame

 private:
  std::optional<double> last_stamp_;
  double offset_ = 0, time_ = 0, end_ = 0;
  int64_t frames_ = 0, steps_back_ = 0, first_step_back_ = 0;
};

}  // namespace saccade
