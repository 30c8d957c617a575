// The functions of NVIDIA's libraries by their own names; in emulated builds those of the stand-ins of
// tests/cuda_emulator.
#pragma once

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/runtime/cuda/libraries/library.h"

namespace saccade::cuda {

// The release of CUDA that the program is built for, which the libraries must be of: 12 or 13.
constexpr int kCudaMajor = CUDART_VERSION / 1000;

// The package that pip installs such a library with: "nvidia-cudnn" is nvidia-cudnn-cu13. cuBLAS goes without since CUDA 13.
inline std::string pip_package(std::string_view name) {
  if (kCudaMajor >= 13 && name == "nvidia-cublas") return std::string(name);
  return fmt::format("{}-cu{}", name, kCudaMajor);
}

// The library, or nothing where the stand-in takes its place. Throws Error as Library does.
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
