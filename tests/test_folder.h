// An empty folder of one test, removed at its end.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace saccade {

class TestFolder {
 public:
  TestFolder() {
    static int count = 0;  // a test may have several
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("saccade_") + info->test_suite_name() + "_" + info->name() + "_" +
                       std::to_string(::getpid()) + "_" + std::to_string(count++);
    std::replace(name.begin(), name.end(), '/', '_');  // of parameterised tests
    path_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
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
// A new file: to cut and write an old one again makes some file systems wait for the disk.
inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace saccade
