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
  int64_t peak_bytes = 0;       // highest active_bytes since start or reset_peak()
  int64_t cached_bytes = 0;     // freed, kept for reuse
  int64_t requests = 0;         // allocate() calls
  int64_t system_requests = 0;  // of these, the ones that went to the operating system or driver
};

// What the tests switch on: fresh memory filled with 0xFF bytes (NaN in every float type), and a guard zone
// after every block that is checked when it is freed (a damaged one ends the program with a message).
struct AllocatorDebug {
  bool poison = false;
  bool guard = false;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  // 64-byte aligned. Zero bytes give a valid pointer. Throws OutOfMemory with the statistics.
  virtual void* allocate(size_t bytes) = 0;
  virtual void deallocate(void* pointer, size_t bytes) noexcept = 0;
  virtual AllocatorStats stats() const = 0;
  virtual void reset_peak() = 0;
  // Gives cached blocks back to the system.
  virtual void trim() = 0;
  virtual void set_debug(AllocatorDebug debug) = 0;
};

// The allocator of a device; throws Error when this build or machine has no such device.
Allocator& allocator(Device device);
// Called once by a backend at start-up.
void register_allocator(Device device, Allocator* allocator);

}  // namespace saccade
