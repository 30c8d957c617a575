// GPU work that is recorded once and then started as a whole (CUDA graphs): for the host, some hundred
// launches then cost as much as one.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/tensor/tensor.h"

namespace saccade {

class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  // Starts the work without waiting for it.
  virtual void start() = 0;
};

// Records what work() launches on our stream; none of it runs before start(). Every start() computes the
// values of the tensors that work() makes; their memory lives as long as they and the recording. What work()
// reads but has not made itself must stay at its address. Throws Error, and records nothing, if work()
// throws, copies from or to the host, or waits for the GPU. Returns null where there is nothing to gain: on
// the CPU, and with SACCADE_CUDA_GRAPHS=0 or SACCADE_CUDA_SYNC=1 in the environment.
std::unique_ptr<RecordedWork> record_work(Device device, const std::function<void()>& work);

namespace detail {
inline thread_local std::vector<std::shared_ptr<const void>>* kept_for_recording = nullptr;
}
// While this thread records, returns the list that keeps alive what the work uses and its owner may drop
// before the recording ends; otherwise null.
inline std::vector<std::shared_ptr<const void>>* kept_for_recording() { return detail::kept_for_recording; }

}  // namespace saccade
