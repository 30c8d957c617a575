// A file of the cache that is not whole yet, with what is known of it: its sum so far and which file of the
// server's it is a part of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "train/weights/cache.h"
#include "train/weights/sha256.h"

namespace saccade {

class PartFile {
 public:
  // What is left of an earlier fetch from the same address is taken up where the server can say that its file
  // is still the same. Throws InputError where the file cannot be written.
  PartFile(const CachedWeights& cached, const std::string& url);
  ~PartFile();
  PartFile& operator=(PartFile&&) = delete;

  uint64_t size() const { return size_; }
  // By which the server knows the file: its ETag, or the date of its last change; "" when nothing is there.
  const std::string& validator() const { return validator_; }
  int64_t total() const { return total_; }  // bytes of the whole file; -1: the server does not say

  // Empties it for another file.
  void restart(const std::string& validator, int64_t total);
  // At its end. Throws Error, naming how much there is, when the disk is full.
  void write(std::string_view bytes);
  std::string sum();  // of all; nothing is written after it
  // On the disk, and under its own name. Throws Error.
  void finish(const std::string& path);
  void remove();

 private:
  [[noreturn]] void stop(const char* what) const;

  const CachedWeights& cached_;
  std::string url_, validator_;
  std::unique_ptr<Sha256> sum_;
  uint64_t size_ = 0;
  int64_t total_ = -1;
  int file_ = -1;
};

}  // namespace saccade
