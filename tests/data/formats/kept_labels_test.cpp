// Tests that no output of a command may replace a file that labels are read from.
#include "data/formats/checks/kept_labels.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "data/formats/joining/united_paths.h"
#include "tests/input_error.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

constexpr const char* kNoShapes = R"({"shapes": [], "imagePath": "1.png"})";

std::string refusal_of(const std::string& output, const DataPaths& paths) {
  return input_error([&] { check_outputs_of_set({{"--json", output}, {"--csv", ""}}, paths); });
}

TEST(KeptLabels, FilesInAFolderOfLabels) {
  TestFolder dir;
  for (const char* folder : {"set/cam", "elsewhere"}) std::filesystem::create_directories(dir / folder);
  write_bytes(dir / "set/1.json", kNoShapes);
  write_bytes(dir / "set/cam/2.json", kNoShapes);
  write_bytes(dir / "elsewhere/3.json", kNoShapes);
  write_bytes(dir / "set/metrics.json", R"({"AP": 0.5})");
  std::filesystem::create_symlink(dir / "set/1.json", dir / "link.json");
  const DataPaths labelme{.annotations = dir / "set", .images = dir / "set"};
  const std::string part = " is one of the files with the labels in " + dir / "set";
  for (const char* name : {"set/1.json", "set/cam/2.json", "set/../set/1.json", "link.json"})
    EXPECT_EQ(refusal_of(dir / name, labelme), (dir / name) + ": --json" + part + ", expected another name");
  for (const char* name : {"elsewhere/3.json", "set/metrics.json", "set/new.json", "new.json"})
    EXPECT_EQ(refusal_of(dir / name, labelme), "no error") << name;
  // Also if the set is one of several, or another split of the evaluated one.
  const DataPaths other{.annotations = dir / "elsewhere", .images = dir / "elsewhere"};
  DataPaths beside = other;
  beside.beside = {labelme};
  for (const DataPaths& paths : {unite_paths({other, labelme}), beside})
    EXPECT_NE(refusal_of(dir / "set/1.json", paths).find(part), std::string::npos);
}

TEST(KeptLabels, ListsOfAllSplits) {
  TestFolder dir;
  const std::string list = R"({"images": [], "annotations": [], "categories": []})";
  for (const char* name : {"train.json", "val.json", "mine.json"}) write_bytes(dir / name, list);
  DataPaths val{.annotations = dir / "val.json", .images = dir.path()};
  val.beside = {{.annotations = dir / "train.json", .images = dir.path()}};
  for (const char* name : {"train.json", "val.json"})
    EXPECT_EQ(refusal_of(dir / name, val),
              (dir / name) + ": --json is the same file as the annotations, expected another name");
  EXPECT_EQ(refusal_of(dir / "mine.json", val), "no error");
}

}  // namespace
}  // namespace saccade
