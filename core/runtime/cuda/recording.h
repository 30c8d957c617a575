// Internals of core/runtime/recording.h: the memory of a recording, and what is forbidden while one is made.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace saccade::cuda {

// Blocks that a recording allocates and frees in the order of its work. They return to the driver with the
// last reference, which may be the recording's or that of a tensor that outlives it.
class RecordedMemory {
 public:
  RecordedMemory() = default;
  ~RecordedMemory();
  RecordedMemory& operator=(RecordedMemory&&) = delete;

  // Returns nullptr if the GPU is full.
  void* take(size_t bytes);
  // Makes a block available to later work of the recording; no effect once the recording has ended.
  void put_back(void* block);
  // Defers the free of a block of the stream's pool: earlier work of the recording may have read it.
  void free_later(void* block);
  void end() { ended_ = true; }

 private:
  std::mutex mutex_;
  std::map<void*, size_t> all_;
  std::multimap<size_t, void*> free_;
  std::vector<void*> later_;
  bool ended_ = false;
};

// The memory of this thread's recording; null if it does not record.
const std::shared_ptr<RecordedMemory>& recorded_memory();
// The memory of whichever thread is recording. Work that another thread gives to the stream meanwhile would
// be recorded too: its frees are deferred here, and everything else is refused.
std::shared_ptr<RecordedMemory> recording_under_way();
void forbid_beside_recording();
// Throws Error while this thread records: each start would need this anew, or a graph cannot do it.
void forbid_in_recording(const char* what);

}  // namespace saccade::cuda
