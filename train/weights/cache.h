// The folder of fetched weights: $SACCADE_CACHE/weights, else $XDG_CACHE_HOME/saccade/weights, else
// ~/.cache/saccade/weights. The checksum of NAME.pth is next to it in NAME.pth.sha256, as `sha256sum -c`
// reads it; NAME.pth.part is a file that is still incomplete.
#pragma once

#include <string>

#include "train/weights/catalogue.h"

namespace saccade {

// Throws InputError if the environment names no absolute folder.
std::string weights_folder();

class CachedWeights {
 public:
  explicit CachedWeights(const PublishedWeights& weights);

  const std::string& path() const { return path_; }
  std::string part() const { return path_ + ".part"; }
  std::string part_origin() const { return path_ + ".part.origin"; }  // the file that the part belongs to
  std::string sum_path() const { return path_ + ".sha256"; }
  std::string lock_path() const { return path_ + ".lock"; }

  bool is_there() const;
  // The checksum of the first fetch; empty if there was none.
  std::string recorded_sum() const;
  void record_sum(const std::string& sum) const;
  // Says how this checksum of a file contradicts the catalogue's or the recorded one; empty if it does not.
  std::string sum_fault(const std::string& sum) const;

  // kLearnt: there was no checksum to compare with, and this one is now recorded; kUnknown: it could not be
  // recorded either.
  enum class State { kMissing, kRight, kDamaged, kLearnt, kUnknown };
  // Checks the existing file, whose checksum it computes.
  State check(std::string& sum) const;

 private:
  const PublishedWeights& weights_;
  std::string path_;
};

}  // namespace saccade
