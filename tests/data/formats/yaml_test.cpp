// Tests YAML from strangers, for which libyaml's own composer takes quadratic time.
#include <gtest/gtest.h>

#include <chrono>

#include "core/tensor/error.h"
#include "data/formats/yolo/yolo_names.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

std::string yaml_error(const std::string& text) {
  TestFolder folder;
  write_bytes(folder / "data.yaml", text);
  const auto start = std::chrono::steady_clock::now();
  std::string error;
  try {
    read_yolo_yaml(folder / "data.yaml");
  } catch (const InputError& e) {
    error = e.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  return error.substr(0, folder.path().size()) == folder.path() ? error.substr(folder.path().size() + 1)
                                                                : error;
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Yaml, DeepTextsAreRefusedAtOnce) {
  constexpr int kDepth = 100000;
  EXPECT_EQ(yaml_error("names: [a]\nx: " + repeated("[", kDepth) + repeated("]", kDepth) + "\n"),
            "data.yaml: line 2: more than 100 levels");
  EXPECT_EQ(yaml_error("names: [a]\nx: " + repeated("{a: ", kDepth)),
            "data.yaml: line 2: more than 100 levels");
  EXPECT_EQ(yaml_error("names: [a]\nx:\n  " + repeated("- ", kDepth)),
            "data.yaml: line 3: more than 100 levels");
  EXPECT_EQ(yaml_error("names: [a]\nx: " + repeated("[", 90) + repeated("]", 90) + "\n"), "");
}

TEST(Yaml, AnchorsAndDirectivesInAnyNumber) {
  std::string anchors = "names: [a]\nx: [", aliases = "]\ny: [", directives;
  for (int i = 0; i < 100000; ++i) {
    anchors += "&a" + std::to_string(i) + " 1,";
    aliases += "*a" + std::to_string(i) + ",";
    directives += "%TAG !" + std::to_string(i) + "! b\n";
  }
  EXPECT_EQ(yaml_error(anchors + aliases + "]\n"), "");
  EXPECT_EQ(yaml_error(directives + "---\nnames: [a]\n"),
            "data.yaml: more than 100 directives (lines that begin with %)");
  EXPECT_EQ(yaml_error("names: *none\n"), "data.yaml: line 1: not valid YAML: found undefined alias");
}

TEST(Yaml, AliasesStandForWhatTheyName) {
  TestFolder folder;
  write_bytes(
      folder / "data.yaml",
      "%YAML 1.1\n---\ncommon: &names [cat, \"dog\"]\ntrain: &where images\nval: *where\nnames: *names\n");
  const YoloYaml yaml = read_yolo_yaml(folder / "data.yaml");
  EXPECT_EQ(yaml.names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(yaml.splits.at("train").at(0).text, "images");
  EXPECT_EQ(yaml.splits.at("val").at(0).text, "images");
}

}  // namespace
}  // namespace saccade
