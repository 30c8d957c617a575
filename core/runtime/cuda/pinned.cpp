#include "core/runtime/cuda/pinned.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <vector>

namespace saccade::cuda {
namespace {

constexpr size_t kSmallest = 4096;

struct FreeBlock {
  char* data;
  size_t bytes;
  cudaEvent_t event;
};

struct Pool {
  std::mutex mutex;
  std::vector<FreeBlock> free;  // in order of release
  size_t bytes = 0;             // of all blocks
};

// Never destroyed: blocks with static storage may be freed after any static object of this file.
Pool& pool() {
  static auto* pool = new Pool;
  return *pool;
}

}  // namespace

PinnedBlock::PinnedBlock(size_t bytes) {
  const size_t size = std::bit_ceil(std::max(bytes, kSmallest));
  std::lock_guard lock(pool().mutex);
  auto& free = pool().free;
  auto take = [&](std::vector<FreeBlock>::iterator it) {
    data_ = it->data, event_ = it->event;
    free.erase(it);
  };
  auto of_size = [&](const FreeBlock& b) { return b.bytes == size; };
  // The block that was released first is the most likely to be done.
  if (auto it = std::find_if(free.begin(), free.end(), of_size); it == free.end()) {
    allocate(size);
  } else if (happened(it->event)) {
    take(it);
  } else if (pool().bytes + size > kMaxPinned) {
    wait_for(it->event);
    take(it);
  } else {
    allocate(size);
  }
  bytes_ = size;
}

void PinnedBlock::allocate(size_t bytes) {
  stream();  // sets the GPU up
  void* p = nullptr;
  check(cudaHostAlloc(&p, bytes, 0), "cudaHostAlloc");
  data_ = static_cast<char*>(p);
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
  pool().bytes += bytes;
}

PinnedBlock::~PinnedBlock() {
  if (!data_) return;
  // Fails only at the end of the program or after a fault that was reported.
  (void)cudaEventRecord(event_, stream());
  std::lock_guard lock(pool().mutex);
  pool().free.push_back({data_, bytes_, event_});
}

bool happened(cudaEvent_t event) {
  cudaError_t status = cudaEventQuery(event);
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();  // not an error, but CUDA records it as one
    return false;
  }
  check(status, "a kernel or copy");
  return true;
}

void wait_for(cudaEvent_t event) {
  if (happened(event)) return;
  ++host_syncs;
  check(cudaEventSynchronize(event), "a kernel or copy");
}

}  // namespace saccade::cuda
