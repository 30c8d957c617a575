// Tests saccade data convert: other forms and back, sets that are divided and cut, classes that are renamed
// and dropped.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "data/formats/data_format.h"
#include "data/formats/splits.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

int convert(const std::vector<std::string>& words, std::string* said = nullptr) {
  std::vector<std::string> all{"data", "convert"};
  all.insert(all.end(), words.begin(), words.end());
  testing::internal::CaptureStdout();
  const int status = run_command(all);
  const std::string out = testing::internal::GetCapturedStdout();
  if (said) *said = out;
  return status;
}

// Returns each object as a line, in order, with names instead of ids.
std::vector<std::string> objects_of(const std::optional<DataPaths>& paths) {
  std::vector<std::string> lines;
  if (!paths) return lines;
  const auto set = open_dataset(*paths);
  for (int64_t i = 0; i < set->num_images(); ++i) {
    const std::string image = fs::path(set->file_name(i)).filename().string();
    lines.push_back(fmt::format("{} {} x {}", image, set->size_of(i).width, set->size_of(i).height));
    for (const Annotation& a : set->annotations_of(i))
      lines.push_back(fmt::format("{}: {} {} {} {} {} {}", image,
                                  set->class_names()[static_cast<size_t>(set->class_of(a.category_id))],
                                  a.bbox[0], a.bbox[1], a.bbox[2], a.bbox[3], a.iscrowd));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

class DataConvert : public testing::Test {
 protected:
  void SetUp() override {
    testing::internal::CaptureStdout();
    for (const char* split : {"train", "val"})
      ASSERT_EQ(
          run_command({"data", "shapes", "--output", dir_ / ("set/" + std::string(split)), "--images",
                       split[0] == 't' ? "8" : "4", "--seed", split[0] == 't' ? "1" : "2", "--size", "32"}),
          0);
    testing::internal::GetCapturedStdout();
  }
  DataSplits found(const std::string& name) { return find_splits(dir_ / name); }

  TestFolder dir_;
};

TEST_F(DataConvert, OtherFormsAndBackLoseNothing) {
  const DataSplits set = found("set");
  ASSERT_EQ(objects_of(set.val).size(), 4 + open_dataset(*set.val)->ground_truth().annotations.size());
  for (const std::string form : {"yolo", "voc"}) {
    ASSERT_EQ(convert({dir_ / "set", dir_ / form, "--to", form}), 0) << form;
    ASSERT_EQ(convert({dir_ / form, dir_ / (form + "_coco")}), 0) << form;
    for (const std::string& name : {form, form + "_coco"}) {
      EXPECT_EQ(objects_of(found(name).train), objects_of(set.train)) << name;
      EXPECT_EQ(objects_of(found(name).val), objects_of(set.val)) << name;
    }
    ASSERT_EQ(convert({dir_ / (form + "_coco"), dir_ / (form + "_again"), "--to", form}), 0) << form;
    EXPECT_EQ(objects_of(found(form + "_again").train), objects_of(set.train)) << form;
    // A folder is complete or does not exist: a second time the command is refused, and nothing is changed.
    EXPECT_EQ(convert({dir_ / "set", dir_ / form, "--to", form}), 2);
    for (const auto& entry : fs::directory_iterator(dir_ / form))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
  }
}

TEST_F(DataConvert, SharesAreDrawnOfAllSplits) {
  ASSERT_EQ(convert({dir_ / "set", dir_ / "parts", "--split", "0.5,0.25,0.25"}), 0);
  const DataSplits parts = found("parts");
  std::multiset<std::string> all, before;
  for (const auto& [split, images] : {std::pair{&parts.train, 6}, {&parts.val, 3}, {&parts.test, 3}}) {
    ASSERT_TRUE(*split);
    EXPECT_EQ(open_dataset(**split)->num_images(), images);
    for (const std::string& line : objects_of(*split)) all.insert(line);
  }
  for (const auto& split : {found("set").train, found("set").val})
    for (const std::string& line : objects_of(split)) before.insert(line);
  EXPECT_EQ(all, before);
  // The same seed draws the same, in every form; another one does not.
  ASSERT_EQ(convert({dir_ / "set", dir_ / "again", "--to", "yolo", "--split", "0.5,0.25,0.25"}), 0);
  EXPECT_EQ(objects_of(found("again").test), objects_of(parts.test));
  ASSERT_EQ(convert({dir_ / "set", dir_ / "other", "--split", "0.5,0.25,0.25", "--seed", "7"}), 0);
  EXPECT_NE(objects_of(found("other").test), objects_of(parts.test));
}

TEST_F(DataConvert, SubsetsAndClasses) {
  ASSERT_EQ(convert({dir_ / "set", dir_ / "few", "--most", "3", "--rename", "ring=circle", "--drop", "star"}),
            0);
  EXPECT_EQ(open_dataset(*found("few").train)->num_images(), 3);
  EXPECT_EQ(open_dataset(*found("few").val)->num_images(), 3);
  ASSERT_EQ(convert({dir_ / "set", dir_ / "named", "--rename", "ring=circle", "--drop", "star"}), 0);
  const auto count = [](const std::vector<std::string>& lines, const std::string& name) {
    return std::ranges::count_if(
        lines, [&](const std::string& line) { return line.find(": " + name) != std::string::npos; });
  };
  const auto was = objects_of(found("set").train), is = objects_of(found("named").train);
  ASSERT_GT(count(was, "ring"), 0);
  ASSERT_GT(count(was, "star"), 0);
  EXPECT_EQ(count(is, "ring") + count(is, "star"), 0);
  EXPECT_EQ(count(is, "circle"), count(was, "circle") + count(was, "ring"));
  EXPECT_EQ(open_dataset(*found("named").train)->num_images(), 8) << "images stay";
  ASSERT_EQ(convert({dir_ / "set", dir_ / "without", "--drop", "ring,star", "--drop", "cross"}), 0);
  const auto left = objects_of(found("without").train);
  EXPECT_EQ(std::ssize(left),
            std::ssize(was) - count(was, "ring") - count(was, "star") - count(was, "cross"));

  // Only images with a star are left, and only the stars in them.
  std::string said;
  ASSERT_EQ(convert({dir_ / "set", dir_ / "stars", "--classes", "star", "--drop-empty"}, &said), 0);
  EXPECT_NE(said.find(" images have no box and are left out"), said.npos) << said;
  EXPECT_EQ(said.find("without objects"), said.npos) << said;
  const auto stars = objects_of(found("stars").train);
  EXPECT_EQ(count(stars, "star"), count(was, "star"));
  std::set<std::string> images;
  for (const std::string& line : was)
    if (line.find(": star") != std::string::npos) images.insert(line.substr(0, line.find(':')));
  ASSERT_LT(images.size(), 8u) << "an image without a star shows something";
  EXPECT_EQ(open_dataset(*found("stars").train)->num_images(), std::ssize(images));
  EXPECT_EQ(stars.size(), images.size() + static_cast<size_t>(count(was, "star")));
}

// Several sets become one, by the names of their classes, in every form.
TEST_F(DataConvert, SetsAreMerged) {
  ASSERT_EQ(convert({dir_ / "set", dir_ / "more", "--to", "voc", "--rename", "ring=hoop"}), 0);
  ASSERT_EQ(convert({dir_ / "set", dir_ / "all", "--data", dir_ / "more", "--split", "0.75,0.25"}), 0);
  size_t images = 0, hoops = 0, rings = 0;
  for (const auto& split : {found("all").train, found("all").val}) {
    images += static_cast<size_t>(open_dataset(*split)->num_images());
    for (const std::string& line : objects_of(split)) {
      hoops += line.find(": hoop ") != std::string::npos;
      rings += line.find(": ring ") != std::string::npos;
    }
  }
  EXPECT_EQ(images, 24u);
  EXPECT_GT(rings, 0u);
  EXPECT_EQ(hoops, rings);
}

}  // namespace
}  // namespace saccade
