// The functions of NVIDIA's libraries under their own names; in emulated builds, those of the stand-ins in
// tests/cuda_emulator.
#pragma once

#include <cuda_runtime.h>

#include <cstdlib>
#include <optional>

#include "core/runtime/cuda/libraries/library.h"

namespace saccade::cuda {

// The CUDA release for which the program is built, and which the libraries must match: 12 or 13.
constexpr int kCudaMajor = CUDART_VERSION / 1000;

// Returns the library, or nothing if a stand-in replaces it. Throws Error as Library does.
inline std::optional<Library> open_library(LibraryName name) {
#ifdef SACCADE_EMULATOR
  // A test hides the stand-in to check what the user reads.
  if (!std::getenv("SACCADE_EMULATOR_HIDES_LIBRARIES")) return std::nullopt;
  name.file += ".hidden";
#endif
  return std::optional<Library>(std::in_place, name);
}

// The function `name` of the result of open_library().
#ifdef SACCADE_EMULATOR
#define SACCADE_LIBRARY_FUNCTION(library, name) \
  ((library) ? (library)->symbol<decltype(::name)>(#name) : &::name)
#else
#define SACCADE_LIBRARY_FUNCTION(library, name) (library)->symbol<decltype(::name)>(#name)
#endif

}  // namespace saccade::cuda
