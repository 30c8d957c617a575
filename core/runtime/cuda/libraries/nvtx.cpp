// Ranges for Nsight Systems. When it starts a program, it names the library that collects them in
// NVTX_INJECTION64_PATH.
#if !defined(SACCADE_EMULATOR) && __has_include(<nvtx3/nvToolsExt.h>)

#include <nvtx3/nvToolsExt.h>

#include <cstdlib>

#include "core/runtime/profile_range.h"

namespace saccade {
namespace {

constexpr ProfileHooks kNvtx{[](const char* name) { nvtxRangePushA(name); }, [] { nvtxRangePop(); }};

[[maybe_unused]] const bool registered = [] {
  if (std::getenv("NVTX_INJECTION64_PATH")) profile_hooks = &kNvtx;
  return true;
}();

}  // namespace
}  // namespace saccade

#endif
