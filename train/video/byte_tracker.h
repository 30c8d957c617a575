// Decides which detections of a video's frames are of the same object: ByteTrack (Zhang et al. 2022,
// "ByteTrack: Multi-Object Tracking by Associating Every Detection Box").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/types/instance.h"

namespace saccade {

// The paper's values.
struct TrackerOptions {
  double high = 0.5;                 // lowest score of the detections that are matched first
  std::optional<double> begin = {};  // lowest score that begins a track; if unset, `high` plus 0.1
  double low = 0.1;                  // lowest score that continues a track
  double match = 0.8;                // largest distance, 1 - IoU * score, of a track and its next box
  int64_t buffer = 30;               // frames for which a lost track is remembered
};

// The state of a box (centre, aspect, height) and its velocity under constant motion. The noise of the four
// is independent and grows with the height, so four filters of two numbers each equal the filter of all
// eight.
class BoxMotion {
 public:
  explicit BoxMotion(const Box& box);
  // Advances by one frame; the height of a lost object stays.
  void predict(bool is_lost);
  void correct(const Box& box);
  Box box() const;

 private:
  struct Axis {
    double position = 0, velocity = 0;
    double position_variance = 0, covariance = 0, velocity_variance = 0;
  };
  Axis x_, y_, aspect_, height_;
};

class ByteTracker {
 public:
  explicit ByteTracker(const TrackerOptions& options) : options_(options) {}

  // Returns for each detection of the next frame the number of its object, from 1; 0 if it has none yet.
  // After the first frame, an object gets its number when it is seen a second time. Objects of different
  // labels are never merged.
  std::vector<int64_t> update(std::span<const Instance> found);
  int64_t count() const { return count_; }  // objects so far

 private:
  enum class State { kNew, kTracked, kLost };
  struct Track {
    BoxMotion motion;
    int64_t label, id, begin, last;  // id 0: not yet confirmed; the others are frame numbers
    State state;
  };
  struct Match {
    size_t track, box;
  };
  // Returns the pairs with least total distance, each below `limit`; removes their members from both lists.
  std::vector<Match> match(std::vector<size_t>& tracks, std::vector<size_t>& boxes,
                           std::span<const Instance> found, double limit, bool with_score) const;
  void remove_doubles();

  TrackerOptions options_;
  std::vector<Track> tracks_;
  int64_t frame_ = 0, count_ = 0;
};

}  // namespace saccade
