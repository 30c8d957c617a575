// The work of a GPU, recorded once and started as one from then on (CUDA graphs): what the host would spend
// on some hundred launches it spends on one.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/tensor/tensor.h"

namespace saccade {

class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  // Without waiting for it.
  virtual void start() = 0;
};

// Records what work() launches on our stream; nothing of it runs before start(). The tensors that it makes
// get their values by that, and new ones by every further start; their memory lives as long as they and the
// recording. What it reads but has not made itself must stay where it is. Throws Error, and records nothing,
// when work() does, or when it copies from or to the host or waits for the GPU. Null where there is nothing
// to gain: on the CPU, and with SACCADE_CUDA_GRAPHS=0 or SACCADE_CUDA_SYNC=1 in the environment.
std::unique_ptr<RecordedWork> record_work(Device device, const std::function<void()>& work);

namespace detail {
inline thread_local std::vector<std::shared_ptr<const void>>* kept_for_recording = nullptr;
}
// While this thread records: what the work uses and its owner may drop before the recording is gone.
// Else null.
inline std::vector<std::shared_ptr<const void>>* kept_for_recording() { return detail::kept_for_recording; }

}  // namespace saccade
