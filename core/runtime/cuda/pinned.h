// Pinned host memory, which the GPU reads and writes while the host continues.
#pragma once

#include <cstddef>

#include "core/runtime/cuda/api.h"

namespace saccade::cuda {

// A block of at least `bytes`. After its destruction it can be handed out again once the work that our stream
// had by then is done; if all blocks together would exceed kMaxPinned, the next user waits for that. The
// images of a batch of 32 at COCO's sizes fit twice besides everything else.
constexpr size_t kMaxPinned = size_t{1} << 30;
class PinnedBlock {
 public:
  PinnedBlock() = default;
  explicit PinnedBlock(size_t bytes);
  ~PinnedBlock();
  PinnedBlock(PinnedBlock&& other) noexcept { swap(other); }
  PinnedBlock& operator=(PinnedBlock&& other) noexcept {
    swap(other);
    return *this;
  }

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // The event to wait for: recorded by the user of the block, or else by its destructor.
  cudaEvent_t event() const { return event_; }

 private:
  void allocate(size_t bytes);
  void swap(PinnedBlock& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(event_, other.event_);
  }
  char* data_ = nullptr;
  size_t bytes_ = 0;
  cudaEvent_t event_ = nullptr;
};

bool happened(cudaEvent_t event);
// Waits for an event, and counts the wait, unless the event has already happened.
void wait_for(cudaEvent_t event);

}  // namespace saccade::cuda
