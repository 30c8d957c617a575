// Checksums that detect damaged bytes: 64-bit XXH3 of the xxHash library (https://xxhash.com). It runs at the
// speed of memory; it does not protect against forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct XXH3_state_s;

namespace saccade {

uint64_t checksum(const void* data, size_t bytes);

// The checksum of bytes that come in pieces.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum& operator=(Checksum&&) = delete;

  void add(const void* data, size_t bytes);
  uint64_t value() const;

 private:
  XXH3_state_s* state_;
};

inline constexpr size_t kChecksumDigits = 16;
std::string checksum_text(uint64_t value);  // kChecksumDigits hexadecimal digits

}  // namespace saccade
