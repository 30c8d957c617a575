// The functions of NVIDIA's libraries by their own names; in emulated builds those of the stand-ins of
// tests/cuda_emulator.
#pragma once

#include <cuda_runtime.h>

#include <cstdlib>
#include <optional>

#include "core/runtime/cuda/libraries/library.h"

namespace saccade::cuda {

// The release of CUDA that the program is built for, which the libraries must be of: 12 or 13.
constexpr int kCudaMajor = CUDART_VERSION / 1000;

// The library, or nothing where the stand-in replaces it. Throws Error as Library does.
inline std::optional<Library> open_library(LibraryName name) {
#ifdef SACCADE_EMULATOR
  // A test hides the stand-in to see what the user reads.
  if (!std::getenv("SACCADE_EMULATOR_HIDES_LIBRARIES")) return std::nullopt;
  name.file += ".hidden";
#endif
  return std::optional<Library>(std::in_place, name);
}

// The function `name` of what open_library gave.
#ifdef SACCADE_EMULATOR
#define SACCADE_LIBRARY_FUNCTION(library, name) \
  ((library) ? (library)->symbol<decltype(::name)>(#name) : &::name)
#else
#define SACCADE_LIBRARY_FUNCTION(library, name) (library)->symbol<decltype(::name)>(#name)
#endif

}  // namespace saccade::cuda
