// NVIDIA's libraries, opened when they are first needed: the program is not linked against them and runs on
// the CPU without them.
//
//   static const Library library({.name = "cuBLASLt", .file = "libcublasLt.so.13", .package =
//   "nvidia-cublas"}); static const auto create = library.symbol<decltype(cublasLtCreate)>("cublasLtCreate");
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/runtime/opened_library.h"

namespace saccade::cuda {

// The library to look for, and the package that a user who lacks it needs.
struct LibraryName {
  const char* name;     // "cuBLASLt"
  std::string file;     // "libcublasLt.so.13"
  std::string package;  // pip's package, "nvidia-cublas"
};

// Returns pip's name of a library's package for a CUDA release: "nvidia-cudnn" is nvidia-cudnn-cu12 or -cu13.
// Since CUDA 13, cuBLAS has no such suffix.
std::string pip_package(std::string_view name, int cuda_major);

// The library is searched for in this order: the folders of $SACCADE_CUDA_LIBRARY_PATH (separated by colons),
// the loader's own search, the folders of conda, of the toolkit and of Debian, the packages of Python
// environments. It stays open to the end of the program.
class Library {
 public:
  // Throws Error with a one-line message if there is none or none can be loaded.
  explicit Library(const LibraryName& wanted);

  // Returns the function or object `name`. Throws Error if the library lacks it.
  template <class T>
  std::add_pointer_t<T> symbol(const char* name) const {
    return opened_->symbol<T>(name);
  }
  const std::string& path() const { return opened_->path(); }
  // Throws Error, naming both versions, unless new_enough.
  void require_version(bool new_enough, const std::string& found, const std::string& oldest) const;

 private:
  LibraryName wanted_;
  std::optional<OpenedLibrary> opened_;
};

// Says on stderr that the libraries have no algorithm for an operation, so that a generic kernel runs, which
// can be a hundred times slower. Once for each `what`: an operation and its shape.
void note_slow_path(const std::string& what);

}  // namespace saccade::cuda
