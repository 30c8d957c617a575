#include "core/files/checksum.h"

#include <fmt/format.h>

#include <xxhash.h>

#include <new>

namespace saccade {

Checksum::Checksum() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(state_);
}
Checksum::~Checksum() { XXH3_freeState(state_); }

void Checksum::add(const void* data, size_t bytes) { XXH3_64bits_update(state_, data, bytes); }

uint64_t Checksum::value() const { return XXH3_64bits_digest(state_); }

uint64_t checksum(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

std::string checksum_text(uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace saccade
