// A fuzz target, and the files that it writes. SACCADE_FUZZ(name) { ... data, size ... } is libFuzzer's
// function in the programs of scripts/fuzz.sh, and a target of test_fuzz (fuzz_test.cpp) in all other builds.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "core/tensor/error.h"
#include "tests/test_folder.h"

namespace saccade::fuzz {

using Target = void (*)(const uint8_t* data, size_t size);

// Registers the target with test_fuzz.
bool add_target(const std::string& name, Target target);

// The folder of this process.
inline const std::string& folder() {
  static const std::string path = make_folder("saccade_fuzz");
  return path;
}

// Writes a file and returns its path.
inline std::string write(const std::string& name, std::string_view bytes) {
  const std::string path = folder() + "/" + name;
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

// A reader may refuse the input with one line; any other exception ends the process.
template <class F>
void attempt(F read) {
  try {
    read();
  } catch (const InputError&) {
  }
}

}  // namespace saccade::fuzz

#ifdef SACCADE_LIBFUZZER
#define SACCADE_FUZZ(name)                                                  \
  static void fuzz_##name(const uint8_t* data, size_t size);                \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    fuzz_##name(data, size);                                                \
    return 0;                                                               \
  }                                                                         \
  static void fuzz_##name(const uint8_t* data, size_t size)
#else
#define SACCADE_FUZZ(name)                                                                            \
  static void fuzz_##name(const uint8_t* data, size_t size);                                          \
  [[maybe_unused]] static const bool is_added_##name = saccade::fuzz::add_target(#name, fuzz_##name); \
  static void fuzz_##name(const uint8_t* data, size_t size)
#endif
