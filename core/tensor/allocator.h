// Memory. One Allocator per device; statistics are always on. The CPU allocator keeps freed blocks (page
// faults on large tensors cost more than the arithmetic on them): small ones in size classes, large ones as
// pieces that join their neighbours (large_blocks.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor/device.h"

namespace saccade {

struct AllocatorStats {
  int64_t active_bytes = 0;     // in live tensors, as requested
  int64_t peak_bytes = 0;       // highest active_bytes since the start or reset_peak()
  int64_t cached_bytes = 0;     // freed blocks that are kept for reuse
  int64_t requests = 0;         // allocate() calls
  int64_t system_requests = 0;  // of these, the ones that went to the operating system or driver
};

// Switches for tests: `poison` fills new memory with 0xFF bytes (NaN in every float type); `guard` checks the
// guard zone after a block when the block is freed (a damaged one ends the program with a message).
struct AllocatorDebug {
  bool poison = false;
  bool guard = false;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  // Returns a 64-byte aligned block. Zero bytes give a valid pointer. Throws OutOfMemory with the statistics.
  virtual void* allocate(size_t bytes) = 0;
  virtual void deallocate(void* pointer, size_t bytes) noexcept = 0;
  virtual AllocatorStats stats() const = 0;
  virtual void reset_peak() = 0;
  // Returns cached blocks to the system.
  virtual void trim() = 0;
  virtual void set_debug(AllocatorDebug debug) = 0;
};

// Returns the allocator of a device. Throws Error if this build or machine has no such device.
Allocator& allocator(Device device);
// Called once by a backend at start-up.
void register_allocator(Device device, Allocator* allocator);

}  // namespace saccade
