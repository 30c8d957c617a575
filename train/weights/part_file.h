// An incomplete file of the cache, with its checksum so far and which of the server's files it is a part of.
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
  // Continues an earlier fetch from the same address if the server can tell whether its file is still the
  // same. Throws InputError if the file cannot be written.
  PartFile(const CachedWeights& cached, const std::string& url);
  ~PartFile();
  PartFile& operator=(PartFile&&) = delete;

  uint64_t size() const { return size_; }
  // Identifies the file on the server: its ETag, or the date of its last change; empty if nothing is there.
  const std::string& validator() const { return validator_; }
  int64_t total() const { return total_; }  // bytes of the whole file; -1 if the server does not say

  // Empties it for another file.
  void restart(const std::string& validator, int64_t total);
  // Appends bytes. Throws Error, naming how much there is, if the disk is full.
  void write(std::string_view bytes);
  std::string sum();  // of the whole file; nothing may be written after this
  // Flushes the file to the disk and moves it to its own name. Throws Error.
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
