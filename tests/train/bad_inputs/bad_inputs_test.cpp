// Bad input of every kind, with a table for each kind in this folder: each row ends with status 2 and one
// line that names the place, leaves no file and changes none. To add an input: a line in a table (table.h
// says how); a new table is found automatically.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "core/files/text.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "tests/train/bad_inputs/table.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

const std::string kTables = SACCADE_SOURCE_DIR "/tests/train/bad_inputs/";

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kTables))
    if (entry.path().extension() == ".table") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Returns what changes when anybody writes into a file, replaces it, or changes its permissions.
std::map<std::string, std::array<int64_t, 4>> everything_in(const fs::path& folder) {
  std::map<std::string, std::array<int64_t, 4>> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    struct stat s {};
    ::lstat(entry.path().c_str(), &s);
    auto& state = all[entry.path().string()];
    state = {static_cast<int64_t>(s.st_ino), s.st_mode};
    if (!S_ISDIR(s.st_mode)) {
      state[2] = s.st_size;
      state[3] = s.st_ctim.tv_sec * 1'000'000'000 + s.st_ctim.tv_nsec;
    }
  }
  return all;
}

class BadInputs : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    home_ = fs::current_path();
    ::setenv("GOLDEN", SACCADE_SOURCE_DIR "/tests/golden", 1);  // for the tables' shells
  }
  static void TearDownTestSuite() {
    delete base_;
    base_ = nullptr;
  }
  void SetUp() override {
    if (!base_) {
      base_ = new TestFolder;
      fs::current_path(base_->path());
      make_base();
    }
    fs::copy(base_->path(), folder_.path(), fs::copy_options::recursive);
    fs::current_path(folder_.path());
  }
  void TearDown() override { fs::current_path(home_); }

  static int quietly(const std::vector<std::string>& words) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = run_command(words);
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return status;
  }
  static void make_base() {
    fs::copy(kTables + "tiny.textproto", "tiny.textproto");
    fs::copy(kTables + "classes.textproto", "classes.textproto");
    for (
        const char* command :
        {"data shapes --output shapes --images 4 --seed 1 --size 64",
         "train --config tiny.textproto --output run",
         "eval --checkpoint run/checkpoints/last.safetensors --annotations shapes/annotations.json --images shapes/images "
         "--detections d.json"})
      ASSERT_EQ(quietly(bad_words(command, "")), 0) << err_;
    int i = 0;
    for (const auto& entry : fs::directory_iterator("shapes/images")) {
      const fs::path folder = i++ % 2 ? "classes/ball" : "classes/box";
      fs::create_directories(folder);
      fs::copy(entry.path(), folder);
    }
    ASSERT_EQ(quietly(bad_words("train --config classes.textproto --output class_run", "")), 0) << err_;
  }

  static void expect_said(const BadRow& row) {
    EXPECT_EQ(escaped_lines(err_), err_);
    EXPECT_EQ(escaped_lines(out_), out_);
    if (row.is_skip) {
      EXPECT_EQ(err_, "");
      EXPECT_NE(out_.find(row.part), std::string::npos) << "stdout: " << out_;
      return;
    }
    EXPECT_TRUE(err_.starts_with("error: ") && err_.ends_with("\n")) << err_;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
    EXPECT_LE(err_.size(), 8100u);
    EXPECT_FALSE(row.part.empty());
    // The problems of a data set are listed on stdout.
    const std::string& said = err_.find("(listed above)") == std::string::npos ? err_ : out_;
    EXPECT_NE(said.find(row.part), std::string::npos) << "stderr: " << (&said == &err_ ? err_ : out_ + err_);
  }

  void check(const BadBlock& block, const BadRow& row) {
    write_row(block, row);
    const auto before = everything_in(folder_.path());
    for (const std::string& command : block.commands) {
      SCOPED_TRACE(kTables + GetParam() + ".table:" + std::to_string(row.line) + ": " + command);
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_EQ(quietly(bad_words(command, row.text)), row.is_skip ? 0 : 2) << err_;
      // It takes milliseconds; the rest is for a sanitizer on a busy machine.
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
      expect_said(row);
      if (row.is_skip) continue;
      const auto after = everything_in(folder_.path());
      for (const auto& [path, state] : after)
        EXPECT_TRUE(before.contains(path) && before.at(path) == state) << path << " was written";
      for (const auto& [path, state] : before) EXPECT_TRUE(after.contains(path)) << path << " is gone";
      if (HasFailure() && after.size() > before.size()) fs::remove_all("out");
    }
  }

  static TestFolder* base_;
  static fs::path home_;
  static std::string out_, err_;
  TestFolder folder_;
};
TestFolder* BadInputs::base_ = nullptr;
fs::path BadInputs::home_;
std::string BadInputs::out_, BadInputs::err_;

TEST_P(BadInputs, EndInOneLineThatNamesThePlace) {
  int rows = 0;
  for (const BadBlock& block : read_bad_table(kTables + GetParam() + ".table")) {
    for (const std::string& command : block.shell)
      ASSERT_EQ(std::system(("{ " + command + "\n} >/dev/null").c_str()), 0) << command;
    for (const auto& [name, value] : block.environment) ::setenv(name.c_str(), unescaped(value).c_str(), 1);
    for (const BadRow& row : block.rows) check(block, row);
    for (const auto& [name, value] : block.environment) ::unsetenv(name.c_str());
    rows += static_cast<int>(block.rows.size());
  }
  EXPECT_GT(rows, 0);
  RecordProperty("rows", rows);
}

INSTANTIATE_TEST_SUITE_P(All, BadInputs, testing::ValuesIn(table_names()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace saccade
