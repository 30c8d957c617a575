// A line that shows a command's progress: redrawn in place on a terminal, and printed as a plain line now and
// then in a log file.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace saccade {

class Progress {
 public:
  // In a log file a line appears at most every `plain_seconds`.
  explicit Progress(std::FILE* out = stdout, double plain_seconds = 10);
  ~Progress();
  Progress& operator=(Progress&&) = delete;

  // Whether it is time for a new line; ask before composing a costly one.
  bool due() const;
  // Shows the line if one is due.
  void update(const std::string& line);
  // Prints a line that stays, above the progress line.
  void message(const std::string& line);
  // Removes the progress line from a terminal.
  void finish();

 private:
  // A closed pipe or terminal, or a full disk, must not end the work whose progress is shown: what cannot be
  // written is dropped. The stream remembers its error.
  void write(std::string_view text);

  std::FILE* out_;
  bool terminal_, drawn_ = false;
  double interval_;
  std::chrono::steady_clock::time_point last_{};
};

// The progress line of a command that processes a known number of things.
class ProgressCounter {
 public:
  // Shows "label 120/4000 images, 310 images/s, 13 s left, 92 MB"; total is 0 if unknown.
  ProgressCounter(std::string label, int64_t total, std::string unit, bool quiet = false)
      : label_(std::move(label)), unit_(std::move(unit)), total_(total), quiet_(quiet) {}

  // Counts `count` more as done. May be called from any thread.
  void add(int64_t count);
  // Removes the line from a terminal until the next update, for a message on stderr.
  void clear();
  // Prints a line that stays, above the progress line.
  void message(const std::string& line);
  // Ends with a line that stays: "label 4000 images, 310 images/s, 13 s".
  void finish();

 private:
  std::string label_, unit_;
  int64_t total_, done_ = 0;
  bool quiet_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Progress line_;
  std::mutex mutex_;
};

double seconds_since(std::chrono::steady_clock::time_point start);
std::string format_duration(double seconds);  // "42 s", "3:07 min", "2:05 h"
std::string format_bytes(int64_t bytes);      // "812 MB", "2.4 GB"
// Resident memory of this process, in bytes; 0 if the system does not say.
int64_t resident_bytes();

}  // namespace saccade
