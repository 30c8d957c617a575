#include "core/runtime/cuda/recording.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "core/runtime/cuda/api.h"
#include "core/runtime/recording.h"

namespace saccade {
namespace cuda {
namespace {

thread_local std::shared_ptr<RecordedMemory> memory_of_thread;

struct UnderWay {
  std::atomic<bool> is_any = false;
  std::mutex mutex;
  std::shared_ptr<RecordedMemory> memory;
};
// Never destroyed: tensors with static storage may be freed after any static object of this file.
UnderWay& under_way() {
  static auto* recording = new UnderWay;
  return *recording;
}

void set_recording(const std::shared_ptr<RecordedMemory>& memory) {
  memory_of_thread = memory;
  std::lock_guard lock(under_way().mutex);
  under_way().memory = memory;
  under_way().is_any = memory != nullptr;
}

}  // namespace

RecordedMemory::~RecordedMemory() {
  // Waits for the GPU. Fails only at the end of the program, or after a fault that was reported.
  for (const auto& [block, bytes] : all_) (void)cudaFree(block);
  for (void* block : later_) (void)cudaFreeAsync(block, stream());
}

void* RecordedMemory::take(size_t bytes) {
  std::lock_guard lock(mutex_);
  // Sizes repeat from layer to layer; a block that is at most a quarter larger will do.
  if (auto it = free_.lower_bound(bytes); it != free_.end() && it->first <= bytes + bytes / 4) {
    void* block = it->second;
    free_.erase(it);
    return block;
  }
  void* block = nullptr;
  const size_t size = std::max<size_t>(bytes, 1);
  // Not from the stream's pool, whose calls would be recorded.
  if (cudaMalloc(&block, size) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  all_.emplace(block, size);
  return block;
}

void RecordedMemory::put_back(void* block) {
  std::lock_guard lock(mutex_);
  if (!ended_) free_.emplace(all_.at(block), block);
}

void RecordedMemory::free_later(void* block) {
  std::lock_guard lock(mutex_);
  later_.push_back(block);
}

const std::shared_ptr<RecordedMemory>& recorded_memory() { return memory_of_thread; }

std::shared_ptr<RecordedMemory> recording_under_way() {
  if (!under_way().is_any) return nullptr;
  std::lock_guard lock(under_way().mutex);
  return under_way().memory;
}

void forbid_beside_recording() {
  if (under_way().is_any && !memory_of_thread)
    fail("[cuda] a thread uses the GPU while another one records its work");
}

void forbid_in_recording(const char* what) {
  if (memory_of_thread) fail("[cuda] {} cannot be recorded", what);
}

}  // namespace cuda

namespace {

class CudaRecording final : public RecordedWork {
 public:
  explicit CudaRecording(const std::function<void()>& work)
      : memory_(std::make_shared<cuda::RecordedMemory>()) {
    cudaStream_t stream = cuda::stream();
    cuda::forbid_in_recording("a recording");
    // Relaxed mode, since this thread may ask the driver for memory meanwhile.
    cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    cuda::set_recording(memory_);
    detail::kept_for_recording = &kept_;
    auto end = [&](cudaGraph_t* graph) {
      detail::kept_for_recording = nullptr;
      memory_->end();
      const cudaError_t status = cudaStreamEndCapture(stream, graph);
      cuda::set_recording(nullptr);
      return status;
    };
    cudaGraph_t graph = nullptr;
    try {
      work();
    } catch (...) {
      // The capture may have been invalidated; ending it then reports an error, which is cleared here.
      if (end(&graph) != cudaSuccess) (void)cudaGetLastError();
      if (graph) (void)cudaGraphDestroy(graph);
      throw;
    }
    cuda::check(end(&graph), "cudaStreamEndCapture");
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    (void)cudaGraphDestroy(graph);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      throw OutOfMemory("[cuda] cudaGraphInstantiate: out of memory");
    }
    cuda::check(status, "cudaGraphInstantiate");
  }
  ~CudaRecording() override { (void)cudaGraphExecDestroy(graph_); }
  CudaRecording& operator=(CudaRecording&&) = delete;

  void start() override {
    ++cuda::launches;
    cuda::check(cudaGraphLaunch(graph_, cuda::stream()), "cudaGraphLaunch");
  }

 private:
  std::shared_ptr<cuda::RecordedMemory> memory_;
  std::vector<std::shared_ptr<const void>> kept_;
  cudaGraphExec_t graph_ = nullptr;
};

bool records() {
  static const bool records = [] {
    const char* text = std::getenv("SACCADE_CUDA_GRAPHS");
    return (!text || std::string_view(text) != "0") && !cuda::waits_for_launches();
  }();
  return records;
}

}  // namespace

std::unique_ptr<RecordedWork> record_work(Device device, const std::function<void()>& work) {
  if (device != Device::kCuda || !records()) return nullptr;
  return std::make_unique<CudaRecording>(work);
}

}  // namespace saccade
