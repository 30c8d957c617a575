#include "train/library/boundary.h"

#include <dlfcn.h>

#include "core/runtime/cpu/thread_team.h"

namespace saccade {

namespace {

// Sets the threads of oneDNN's loops. In the program they run on our threads, since its definitions of
// OpenMP's functions come before libgomp's. A library must not impose that on its host program, so here they
// are libgomp's, which counts threads separately for each calling thread.
struct Libgomp {
  void* const library = ::dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
  int (*const get)() = function<int()>("omp_get_max_threads");
  void (*const set)(int) = function<void(int)>("omp_set_num_threads");

 private:
  template <class F>
  F* function(const char* name) const {
    return library ? reinterpret_cast<F*>(::dlsym(library, name)) : nullptr;
  }
};

// Returns the previous number of threads, 0 without libgomp.
int set_threads_of_libgomp(int count) {
  static const Libgomp libgomp;
  if (!libgomp.get || !libgomp.set) return 0;
  const int before = libgomp.get();
  libgomp.set(count);
  return before;
}

std::unique_lock<std::mutex> lock_gpu(Device device) {
  static std::mutex turn;
  return device == Device::kCpu ? std::unique_lock<std::mutex>() : std::unique_lock(turn);
}

}  // namespace

GpuTurn::GpuTurn(Device device) : lock_(lock_gpu(device)), gpu_(device) {}

// The threads are started first: a loop without its threads would end the caller's process.
ComputeScope::ComputeScope(Device device)
    : turn_(device), callers_threads_((start_threads(), set_threads_of_libgomp(thread_count()))) {}

ComputeScope::~ComputeScope() {
  if (callers_threads_ > 0) set_threads_of_libgomp(callers_threads_);
}

}  // namespace saccade
