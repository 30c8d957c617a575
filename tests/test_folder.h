// Folders and files for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace saccade {

// Makes an empty folder of its own. The process number would not be unique: a killed process leaves its
// folders, and numbers are reused.
inline std::string make_folder(const std::string& name) {
  std::string path = (std::filesystem::temp_directory_path() / (name + "_XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot make " + path);
  return path;
}

// An empty folder for one test, removed at its end.
class TestFolder {
 public:
  TestFolder() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("saccade_") + info->test_suite_name() + "_" + info->name();
    std::replace(name.begin(), name.end(), '/', '_');  // in the names of parameterised tests
    path_ = make_folder(name);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
// Writes a new file: truncating and rewriting an old one makes some file systems wait for the disk.
inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace saccade
