#include "core/runtime/cuda/libraries/cudnn.h"

#include "core/runtime/cuda/libraries/library_functions.h"

namespace saccade::cuda {
namespace {

constexpr size_t kOldest = 90000;

std::string version(size_t v) { return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100); }

CudnnApi load() {
  // cuDNN finds its sub-libraries in its own folder.
  const std::optional<Library> library =
      open_library({"cuDNN", "libcudnn.so.9", pip_package("nvidia-cudnn", kCudaMajor)});
  CudnnApi api;
#define F(name) api.name = SACCADE_LIBRARY_FUNCTION(library, name);
  SACCADE_CUDNN_FUNCTIONS(F)
#undef F
  const size_t found = api.cudnnGetVersion();
  if (library) library->require_version(found >= kOldest, version(found), version(kOldest));
  return api;
}

}  // namespace

const CudnnApi& cudnn() {
  static const CudnnApi api = load();
  return api;
}

cudnnHandle_t cudnn_handle() {
  // Lives to the end of the program: the driver may be gone before static objects are destroyed.
  static const cudnnHandle_t handle = [] {
    cudaStream_t s = stream();
    cudnnHandle_t h = nullptr;
    check(cudnn().cudnnCreate(&h), "cudnnCreate");
    check(cudnn().cudnnSetStream(h, s), "cudnnSetStream");
    return h;
  }();
  return handle;
}

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char reason[512] = "";
  cudnn().cudnnGetLastErrorString(reason, sizeof reason);
  std::string text(reason);
  for (char& c : text)
    if (c == '\n') c = ' ';
  fail("[cuda] {}: {}{}{}", call, cudnn().cudnnGetErrorString(status), text.empty() ? "" : ", ", text);
}

}  // namespace saccade::cuda
