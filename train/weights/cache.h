// The folder of fetched weights: $SACCADE_CACHE/weights, else $XDG_CACHE_HOME/saccade/weights, else
// ~/.cache/saccade/weights. NAME.pth has its sum next to it in NAME.pth.sha256, as `sha256sum -c` reads it;
// NAME.pth.part is a file that is not whole yet.
#pragma once

#include <string>

#include "train/weights/catalogue.h"

namespace saccade {

// Throws InputError where the environment names no absolute folder.
std::string weights_folder();

class CachedWeights {
 public:
  explicit CachedWeights(const PublishedWeights& weights);

  const std::string& path() const { return path_; }
  std::string part() const { return path_ + ".part"; }
  std::string part_origin() const { return path_ + ".part.origin"; }  // of what file the part is
  std::string sum_path() const { return path_ + ".sha256"; }
  std::string lock_path() const { return path_ + ".lock"; }

  bool is_there() const;
  // That of the first fetch; "" where there was none.
  std::string recorded_sum() const;
  void record_sum(const std::string& sum) const;
  // What is wrong with a file of this sum, compared with the catalogue's and the recorded one;
  // "" where nothing is.
  std::string sum_fault(const std::string& sum) const;

  // kLearnt: there was nothing to compare the sum with, and now it is recorded; kUnknown:
  // nor could it be recorded.
  enum class State { kMissing, kRight, kDamaged, kLearnt, kUnknown };
  // Of the file that is there, whose sum is computed.
  State check(std::string& sum) const;

 private:
  const PublishedWeights& weights_;
  std::string path_;
};

}  // namespace saccade
