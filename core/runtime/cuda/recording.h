// Inside of core/runtime/recording.h: the memory of a recording, and what is forbidden while there is one.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace saccade::cuda {

// Blocks that a recording hands out and takes back, in the order of its work. They return to the driver with
// the last reference: the recording's, or that of a tensor that outlives it.
class RecordedMemory {
 public:
  RecordedMemory() = default;
  ~RecordedMemory();
  RecordedMemory& operator=(RecordedMemory&&) = delete;

  // nullptr: the GPU is full.
  void* take(size_t bytes);
  // For later work of the recording; nothing once that has ended.
  void put_back(void* block);
  // A block of the stream's pool that is freed meanwhile: earlier work of the recording may have read it.
  void free_later(void* block);
  void end() { ended_ = true; }

 private:
  std::mutex mutex_;
  std::map<void*, size_t> all_;
  std::multimap<size_t, void*> free_;
  std::vector<void*> later_;
  bool ended_ = false;
};

// Of this thread; null when it does not record.
const std::shared_ptr<RecordedMemory>& recorded_memory();
// Of whichever thread records now. What another one gives to the stream meanwhile would be recorded, too:
// frees wait in here, and all else is refused.
std::shared_ptr<RecordedMemory> recording_under_way();
void forbid_beside_recording();
// Throws Error while this thread records: a graph would do once what every start needs anew, or cannot do it.
void forbid_in_recording(const char* what);

}  // namespace saccade::cuda
