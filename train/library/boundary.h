// The boundary between libsaccade and its callers: internal errors become those of the standard library, and
// a call leaves the caller's process as it was.
#pragma once

#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>

#include "core/files/text.h"
#include "core/runtime/gpu.h"
#include "core/tensor/device.h"
#include "core/tensor/error.h"

namespace saccade {

// Converts errors to standard ones, whose names callers know. Messages become one line, whatever is in them.
template <class F>
auto with_standard_errors(F&& f) {
  try {
    return f();
  } catch (const InputError& error) {
    throw std::invalid_argument(one_line(error.what()));
  } catch (const OutOfMemory&) {
    throw std::bad_alloc();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(one_line(error.what()));
  }
}

// The GPU's stream and the handles of its libraries are shared by all threads, so whoever computes on it, or
// frees its memory, holds this; meanwhile the GPU is the current one of the calling thread. For the CPU
// nothing is held.
class GpuTurn {
 public:
  explicit GpuTurn(Device device);

 private:
  std::unique_lock<std::mutex> lock_;
  CurrentGpu gpu_;
};

// During its lifetime, the calling thread may compute: the compute threads have been started, oneDNN uses as
// many, and the GPU is its own. Throws what start_threads() throws.
class ComputeScope {
 public:
  explicit ComputeScope(Device device);
  ~ComputeScope();
  ComputeScope& operator=(ComputeScope&&) = delete;

 private:
  GpuTurn turn_;
  int callers_threads_;
};

}  // namespace saccade
