// A file that a fuzz target fills with its bytes, one for each process.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "core/tensor/error.h"

namespace saccade::fuzz {

inline const std::string& folder() {
  static const std::string path = [] {
    const std::string made =
        (std::filesystem::temp_directory_path() / ("saccade_fuzz_" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(made);
    return made;
  }();
  return path;
}

// Returns its path.
inline std::string write(const std::string& name, std::string_view bytes) {
  const std::string path = folder() + "/" + name;
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

// A line about the input is what a reader may answer; anything else that it throws ends the process.
template <class F>
void attempt(F read) {
  try {
    read();
  } catch (const InputError&) {
  }
}

}  // namespace saccade::fuzz
