// GPU memory: the driver's stream-ordered pool, which keeps freed memory, a cache in front of it, and our
// statistics.
#include "core/tensor/allocator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/runtime/cuda/api.h"
#include "core/runtime/cuda/recording.h"
#include "core/runtime/gpu.h"
#include "core/tensor/error.h"
#include "core/tensor/execution.h"
#include "core/tensor/integers.h"

#ifdef SACCADE_EMULATOR
namespace saccade::emulator {
void renew(void* block, size_t size, size_t bytes);  // tests/cuda_emulator/memory.h
}
#endif

namespace saccade {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr unsigned char kGuardValue = 0xA5;

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Freed blocks of the driver's pool, for the next request of their size. A driver call costs the host about
// as much as a launch, and a training step allocates and frees some thousand times. All blocks belong to the
// order of one stream, so that the next owner's work comes after the previous owner's.
class BlockCache {
 public:
  static constexpr size_t kLargest = size_t{16} << 20;

  // Rounds up to one of few sizes; above 4 KiB, to at most an eighth more.
  static size_t size_for(size_t bytes) {
    constexpr size_t kSmallest = 512, kSteps = 8;
    const size_t step = bytes <= kSmallest * kSteps ? kSmallest : std::bit_floor(bytes) / kSteps;
    return static_cast<size_t>(round_up(static_cast<int64_t>(bytes), static_cast<int64_t>(step)));
  }

  // Returns nullptr if there is none.
  void* take(size_t size) {
    const auto found = free_.find(size);
    if (found == free_.end() || found->second.empty()) return nullptr;
    void* block = found->second.back();
    found->second.pop_back();
    bytes_ -= size;
    return block;
  }
  // Returns false if the cache would become too large.
  bool put(void* block, size_t size) {
    if (bytes_ + size > most_bytes_) return false;
    free_[size].push_back(block);
    bytes_ += size;
    return true;
  }
  std::vector<void*> take_all() {
    std::vector<void*> all;
    for (auto& [size, blocks] : free_) all.insert(all.end(), blocks.begin(), blocks.end());
    free_.clear();
    bytes_ = 0;
    return all;
  }
  void set_most_bytes(size_t bytes) { most_bytes_ = bytes; }

 private:
  std::unordered_map<size_t, std::vector<void*>> free_;
  size_t bytes_ = 0, most_bytes_ = 0;
};

class CudaAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes) override {
    std::lock_guard lock(mutex_);
    cudaStream_t stream = cuda::stream();
    open_pool();
    ++stats_.requests;
    if (const auto& recorded = cuda::recorded_memory()) {
      void* p = recorded->take(bytes);
      if (!p) fail_out_of_memory(bytes);
      count(p, bytes, {.use = execution().memory_use, .recorded = recorded});
      return p;
    }
    const bool is_cached = bytes <= BlockCache::kLargest && stream == cached_on_ && !debug_.guard;
    const size_t size = is_cached ? BlockCache::size_for(std::max<size_t>(bytes, 1))
                                  : std::max<size_t>(bytes + (debug_.guard ? kGuardBytes : 0), 1);
    void* p = is_cached ? cache_.take(size) : nullptr;
    if (!p) p = ask_driver(size, bytes, stream);
    if (is_cached) renew(p, size, bytes);
    count(p, bytes, {.use = execution().memory_use, .guarded = debug_.guard, .cached = is_cached ? size : 0});
    if (debug_.poison && bytes > 0) cuda::check(cudaMemsetAsync(p, 0xFF, bytes, stream), "cudaMemset");
    if (debug_.guard) {
      cuda::check(cudaMemsetAsync(static_cast<char*>(p) + bytes, kGuardValue, kGuardBytes, stream),
                  "cudaMemset");
    }
    return p;
  }

  void deallocate(void* p, size_t bytes) noexcept override {
    std::shared_ptr<cuda::RecordedMemory> recorded;  // perhaps the last reference: released after the lock
    std::lock_guard lock(mutex_);
    const auto block = blocks_.find(p);
    if (block == blocks_.end()) {
      std::fprintf(stderr, "saccade: GPU memory that is not in use was freed\n");
      std::abort();
    }
    if (block->second.guarded && !cuda::recording_under_way()) check_guard(p, bytes);
    active_by_use_[static_cast<size_t>(block->second.use)] -= static_cast<int64_t>(bytes);
    recorded = std::move(block->second.recorded);
    const size_t cached = block->second.cached;
    blocks_.erase(block);
    stats_.active_bytes -= static_cast<int64_t>(bytes);
    if (recorded) return recorded->put_back(p);
    if (const auto now = cuda::recording_under_way()) return now->free_later(p);
    if (cached > 0 && cuda::stream() == cached_on_ && cache_.put(p, cached)) return renew(p, cached, 0);
    // Fails only if the driver is already gone, at the end of the program, or after a fault that was
    // reported.
    (void)cudaFreeAsync(p, cuda::stream());
  }

  AllocatorStats stats() const override {
    std::lock_guard lock(mutex_);
    AllocatorStats s = stats_;
    uint64_t reserved = 0;
    if (pool_open_ &&
        cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved) == cudaSuccess)
      s.cached_bytes = std::max<int64_t>(0, static_cast<int64_t>(reserved) - s.active_bytes);
    return s;
  }
  void reset_peak() override {
    std::lock_guard lock(mutex_);
    stats_.peak_bytes = stats_.active_bytes;
  }
  void trim() override {
    std::lock_guard lock(mutex_);
    if (pool_open_) trim_pool();
  }
  void set_debug([[maybe_unused]] AllocatorDebug debug) override {
#ifndef SACCADE_EMULATOR  // the emulator itself reports unwritten memory and bounds, to the byte
    std::lock_guard lock(mutex_);
    debug_ = debug;
#endif
  }

 private:
  struct Block {
    MemoryUse use;
    bool guarded = false;                                      // has a guard zone
    size_t cached = 0;                                         // its size in the cache; 0 if not for it
    std::shared_ptr<cuda::RecordedMemory> recorded = nullptr;  // its owner; null if that is the pool
  };
  void count(void* p, size_t bytes, Block block) {
    stats_.active_bytes += static_cast<int64_t>(bytes);
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.active_bytes);
    active_by_use_[static_cast<size_t>(block.use)] += static_cast<int64_t>(bytes);
    blocks_.emplace(p, std::move(block));
  }

  // If the driver has no memory, asks once more after the cache and the pool have given everything back: what
  // they hold in other sizes may be what is missing.
  void* ask_driver(size_t size, size_t bytes, cudaStream_t stream) {
    void* p = nullptr;
    ++stats_.system_requests;
    cudaError_t status = cudaMallocAsync(&p, size, stream);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      trim_pool();
      status = cudaMallocAsync(&p, size, stream);
    }
    if (status == cudaErrorMemoryAllocation) fail_out_of_memory(bytes);
    cuda::check(status, "cudaMallocAsync");
    return p;
  }
  // Tells the emulator that `bytes` of the block have a new owner and are not written yet; CUDA itself need
  // not know.
  static void renew([[maybe_unused]] void* p, [[maybe_unused]] size_t size,
                    [[maybe_unused]] size_t bytes) noexcept {
#ifdef SACCADE_EMULATOR
    emulator::renew(p, size, bytes);
#endif
  }
  // Blocks that queued work still uses are freed after that work.
  void trim_pool() {
    for (void* block : cache_.take_all()) cuda::check(cudaFreeAsync(block, cached_on_), "cudaFreeAsync");
    cuda::synchronize();
    cuda::check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
  }
  // Freed memory stays in the pool: giving it back to the driver would cost a synchronisation.
  void open_pool() {
    if (pool_open_) return;
    cuda::check(cudaDeviceGetDefaultMemPool(&pool_, 0), "cudaDeviceGetDefaultMemPool");
    uint64_t keep = UINT64_MAX;
    cuda::check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
                "cudaMemPoolSetAttribute");
    size_t free = 0, total = 0;
    cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    constexpr size_t kCacheDivisor = 64;  // the cache holds at most this fraction of the GPU's memory
    cache_.set_most_bytes(total / kCacheDivisor);
    cached_on_ = cuda::stream();
    pool_open_ = true;
  }
  [[noreturn]] void fail_out_of_memory(size_t bytes) {
    size_t free = 0, total = 0;
    (void)cudaGetLastError();
    cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    std::string held;
    for (size_t use = 0; use < kMemoryUses.size(); ++use)
      held += fmt::format("{}{} {:.1f}", use ? ", " : "", kMemoryUses[use], mebibytes(active_by_use_[use]));
    throw OutOfMemory(fmt::format(
        "[allocator] out of GPU memory: asked for {:.1f} MiB ({}); {:.1f} MiB in live tensors ({}; at most "
        "{:.1f} so far), {:.1f} of {:.1f} MiB free on the GPU",
        mebibytes(static_cast<int64_t>(bytes)), kMemoryUses[static_cast<size_t>(execution().memory_use)],
        mebibytes(stats_.active_bytes), held, mebibytes(stats_.peak_bytes),
        mebibytes(static_cast<int64_t>(free)), mebibytes(static_cast<int64_t>(total))));
  }
  static void check_guard(void* p, size_t bytes) noexcept {
    unsigned char guard[kGuardBytes] = {};
    if (cudaMemcpyAsync(guard, static_cast<char*>(p) + bytes, kGuardBytes, cudaMemcpyDeviceToHost,
                        cuda::stream()) != cudaSuccess ||
        cudaStreamSynchronize(cuda::stream()) != cudaSuccess)
      return;  // a fault that the next call reports
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (guard[i] != kGuardValue) {
        std::fprintf(stderr, "saccade: write past the end of a %zu-byte block of GPU memory (byte +%zu)\n",
                     bytes, i);
        std::abort();
      }
    }
  }

  mutable std::mutex mutex_;
  AllocatorStats stats_;
  AllocatorDebug debug_;
  std::unordered_map<void*, Block> blocks_;  // blocks in use
  std::array<int64_t, kMemoryUses.size()> active_by_use_{};
  cudaMemPool_t pool_ = nullptr;
  bool pool_open_ = false;
  BlockCache cache_;
  cudaStream_t cached_on_ = nullptr;
};

// Never destroyed: tensors with static storage may be freed after any static object of this file.
[[maybe_unused]] const bool registered = (register_allocator(Device::kCuda, new CudaAllocator), true);

}  // namespace
}  // namespace saccade
