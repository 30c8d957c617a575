#include "core/tensor/allocator.h"

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "core/tensor/error.h"
#include "core/tensor/large_blocks.h"
#include "core/tensor/memory.h"

namespace saccade {
namespace {

constexpr size_t kAlignment = 64;
// Blocks from this size on come from LargeBlocks. AddressSanitizer detects the ends of system blocks only.
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kLarge = SIZE_MAX;
#else
constexpr size_t kLarge = size_t{1} << 20;
#endif
constexpr size_t kGuardBytes = 64;
constexpr unsigned char kGuardValue = 0xA5;
// The limit of the cache, unless the peak plus a quarter for gaps, less what is in use, is more: the next
// step will want that again. Beyond the limit a freed block goes back to the system.
constexpr int64_t kMaxCachedBytes = int64_t{4} << 30;
// The bytes that may be taken from the system before its free memory is checked again.
constexpr size_t kUncheckedBytes = size_t{64} << 20;

// Size classes: four steps per power of two, so a block wastes at most a quarter.
size_t size_class(size_t bytes) {
  if (bytes <= 256) return 256;
  size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

// Invariants: small_bytes_ is the total size of the blocks in free_; each list holds blocks of one class.
class CpuAllocator final : public Allocator {
 public:
  ~CpuAllocator() override { trim(); }

  void* allocate(size_t bytes) override {
    std::lock_guard lock(mutex_);
    ++stats_.requests;
    void* p = kept(bytes);
    if (!p) {
      ++stats_.system_requests;
      p = from_system(bytes);
      if (!p && cached_bytes() > 0) {
        trim_cache();
        p = from_system(bytes);
      }
      if (!p)
        throw OutOfMemory(fmt::format(
            "[allocator] out of CPU memory: asked for {} bytes, {} in live tensors, peak {}, {} left", bytes,
            stats_.active_bytes, stats_.peak_bytes, available_memory()));
    }
    stats_.active_bytes += static_cast<int64_t>(bytes);
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.active_bytes);
    if (debug_.poison) std::memset(p, 0xFF, bytes);
    // The guard is always written, so that checking can be switched on at any time.
    std::memset(static_cast<char*>(p) + bytes, kGuardValue, kGuardBytes);
    return p;
  }

  void deallocate(void* p, size_t bytes) noexcept override {
    std::lock_guard lock(mutex_);
    if (debug_.guard) check_guard(p, bytes);
    stats_.active_bytes -= static_cast<int64_t>(bytes);
    if (is_large(bytes)) {
      const size_t room = LargeBlocks::room_for(bytes + kGuardBytes);
      if (cached_bytes() + static_cast<int64_t>(room) > most_cached())
        LargeBlocks::return_to_system(p, room);
      else
        large_.give_back(p, room);
      return;
    }
    const size_t size = size_class(bytes + kGuardBytes);
    if (cached_bytes() + static_cast<int64_t>(size) > most_cached()) {
      std::free(p);
      return;
    }
    try {
      list_for(size).push_back(p);
      small_bytes_ += static_cast<int64_t>(size);
    } catch (const std::bad_alloc&) {
      std::free(p);
    }
  }

  AllocatorStats stats() const override {
    std::lock_guard lock(mutex_);
    AllocatorStats stats = stats_;
    stats.cached_bytes = cached_bytes();
    return stats;
  }
  void reset_peak() override {
    std::lock_guard lock(mutex_);
    stats_.peak_bytes = stats_.active_bytes;
  }
  void trim() override {
    std::lock_guard lock(mutex_);
    trim_cache();
  }
  void set_debug(AllocatorDebug debug) override {
    std::lock_guard lock(mutex_);
    debug_ = debug;
  }

 private:
  static bool is_large(size_t bytes) { return bytes >= kLarge; }
  int64_t cached_bytes() const { return small_bytes_ + large_.free_bytes(); }
  int64_t most_cached() const {
    return std::max(kMaxCachedBytes, stats_.peak_bytes + stats_.peak_bytes / 4 - stats_.active_bytes);
  }
  void trim_cache() {
    for (auto& list : free_) {
      for (void* p : list) std::free(p);
      list.clear();
    }
    small_bytes_ = 0;
    large_.trim();
  }
  // Returns a block that was freed before, or null if none fits.
  void* kept(size_t bytes) {
    if (is_large(bytes)) return large_.take(LargeBlocks::room_for(bytes + kGuardBytes));
    const size_t size = size_class(bytes + kGuardBytes);
    auto& list = list_for(size);
    if (list.empty()) return nullptr;
    void* p = list.back();
    list.pop_back();
    small_bytes_ -= static_cast<int64_t>(size);
    return p;
  }
  // Returns null if the machine has less: the system would promise the memory and end the program when it is
  // touched.
  void* from_system(size_t bytes) {
    if (is_large(bytes)) {
      const size_t room = LargeBlocks::room_for(bytes + kGuardBytes);
      return large_.grow(room) ? large_.take(room) : nullptr;
    }
    const size_t size = size_class(bytes + kGuardBytes);
    unchecked_bytes_ += size;
    if (unchecked_bytes_ >= kUncheckedBytes) {
      if (static_cast<int64_t>(size) > available_memory()) return nullptr;
      unchecked_bytes_ = 0;
    }
    return std::aligned_alloc(kAlignment, size);
  }
  static void check_guard(void* p, size_t bytes) noexcept {
    const auto* guard = static_cast<const unsigned char*>(p) + bytes;
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (guard[i] != kGuardValue) {
        std::fprintf(stderr, "saccade: write past the end of a %zu-byte block (byte +%zu)\n", bytes, i);
        std::abort();
      }
    }
  }
  std::vector<void*>& list_for(size_t size) {
    int log = std::bit_width(size) - 1;
    size_t quarter = (size - (size_t{1} << log)) / (size_t{1} << (log - 2));
    return free_[static_cast<size_t>(log) * 4 + quarter];
  }

  mutable std::mutex mutex_;
  AllocatorStats stats_;  // without cached_bytes
  LargeBlocks large_;
  int64_t small_bytes_ = 0;
  AllocatorDebug debug_;
  size_t unchecked_bytes_ = 0;  // taken from the system since it was last asked
  std::array<std::vector<void*>, 256> free_;
};

Allocator*& slot(Device device) {
  // Never destroyed: tensors with static storage may be freed after any static object of this file.
  static auto* cpu = new CpuAllocator;
  static std::array<Allocator*, kDeviceCount> slots{cpu, nullptr};
  return slots[static_cast<size_t>(device)];
}

}  // namespace

Allocator& allocator(Device device) {
  Allocator* a = slot(device);
  SACCADE_CHECK(a != nullptr, "[allocator] device {} is not available", name_of(device));
  return *a;
}

void register_allocator(Device device, Allocator* a) { slot(device) = a; }

}  // namespace saccade
