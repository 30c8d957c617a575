#include "core/runtime/cuda/libraries/nccl.h"

#include <optional>

#include "core/runtime/cuda/libraries/library_functions.h"

namespace saccade::cuda {
namespace {

// The first version with all of the functions: 2.13 added ncclGetLastError.
constexpr int kOldestNccl = 21304;

std::string nccl_version(int v) {
  const int major = v >= 10000 ? v / 10000 : v / 1000, minor = v >= 10000 ? v / 100 % 100 : v / 100 % 10;
  return fmt::format("{}.{}.{}", major, minor, v % 100);
}

NcclApi load_nccl() {
  const std::optional<Library> library =
      open_library({"NCCL", "libnccl.so.2", pip_package("nvidia-nccl", kCudaMajor)});
  int found = 0;
  if (SACCADE_LIBRARY_FUNCTION(library, ncclGetVersion)(&found) != ncclSuccess)
    fail("NCCL does not report its version");
  if (library) library->require_version(found >= kOldestNccl, nccl_version(found), nccl_version(kOldestNccl));
  NcclApi api;
#define F(name) api.name = SACCADE_LIBRARY_FUNCTION(library, name);
  SACCADE_NCCL_FUNCTIONS(F)
#undef F
  return api;
}

}  // namespace

const NcclApi& nccl() {
  static const NcclApi api = load_nccl();
  return api;
}

namespace {

std::string problem_of(ncclResult_t status, const char* call) {
  std::string reason = nccl().ncclGetLastError(nullptr);
  for (char& c : reason)
    if (c == '\n') c = ' ';
  return fmt::format("[cuda] {}: {}{}{}", call, nccl().ncclGetErrorString(status), reason.empty() ? "" : ", ",
                     reason);
}

}  // namespace

void check(ncclResult_t status, const char* call) {
  if (status != ncclSuccess) fail("{}", problem_of(status, call));
}

std::string nccl_problem(ncclComm_t comm) {
  ncclResult_t status = ncclSuccess;
  if (nccl().ncclCommGetAsyncError(comm, &status) != ncclSuccess || status == ncclSuccess ||
      status == ncclInProgress)
    return "";
  return problem_of(status, "NCCL's work on the GPU");
}

}  // namespace saccade::cuda
