// Tests saccade data check, report and convert with label maps in each of their layouts.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/formats/data_format.h"
#include "data/formats/splits.h"
#include "data/images/image.h"
#include "data/images/stored_pixels.h"
#include "tests/data/formats/test_sets.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::write_picture;
using test::write_text;

// Writes 20 x 20 pixels with these values one after another.
void write_label_values(const std::string& path, const std::vector<uint16_t>& values,
                        const std::vector<uint32_t>& palette = {}) {
  fs::create_directories(fs::path(path).parent_path());
  std::vector<uint16_t> pixels(400);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = values[i % values.size()];
  write_stored_pixels(path, {20, 20}, pixels, palette);
}

// Writes a training image a and a validation image b, each in a folder.
using WriteSet = void (*)(const std::string& folder);

void write_ade(const std::string& folder) {
  for (const auto& [split, image] : {std::pair{"training", "a"}, std::pair{"validation", "b"}}) {
    write_picture(fmt::format("{}/images/{}/{}.png", folder, split, image));
    write_label_values(fmt::format("{}/annotations/{}/{}.png", folder, split, image), {0, 1, 2, 255});
  }
  write_text(folder + "/objectInfo150.txt", "1\t0.1\t1\t1\t1\twall\n2\t0.1\t6\t6\t1\tbuilding, edifice\n");
}
void write_cityscapes(const std::string& folder) {
  for (const char* split : {"train", "val"}) {
    write_picture(fmt::format("{}/leftImg8bit/{}/ulm/ulm_0_0_leftImg8bit.png", folder, split));
    write_label_values(fmt::format("{}/gtFine/{}/ulm/ulm_0_0_gtFine_labelIds.png", folder, split),
                       {0, 7, 33, 6});
  }
}
void write_voc_maps(const std::string& folder) {
  std::vector<uint32_t> palette(256, 0xe0e0c0);
  palette[0] = 0, palette[1] = 0x800000, palette[2] = 0x008000;
  for (const auto& [split, image] : {std::pair{"train", "a"}, std::pair{"val", "b"}}) {
    write_picture(fmt::format("{}/JPEGImages/{}.png", folder, image));
    write_label_values(fmt::format("{}/SegmentationClass/{}.png", folder, image), {0, 1, 2, 255}, palette);
    write_text(fmt::format("{}/ImageSets/Segmentation/{}.txt", folder, split), std::string(image) + "\n");
  }
}
void write_cvat_maps(const std::string& folder) {
  write_voc_maps(folder);
  write_text(folder + "/labelmap.txt", "nut:0,128,0::\nbackground:0,0,0::\nbolt:128,0,0::\n");
}
void write_sixteen_bits(const std::string& folder) {
  for (const auto& [split, image] : {std::pair{"train", "x/a"}, std::pair{"valid", "b"}}) {
    write_picture(fmt::format("{}/{}/images/{}.png", folder, split, image));
    write_label_values(fmt::format("{}/{}/masks/{}_mask.png", folder, split, image), {1000, 65535, 7});
  }
}
void write_roboflow(const std::string& folder) {
  for (const auto& [split, image] : {std::pair{"train", "a"}, std::pair{"valid", "b"}}) {
    write_picture(fmt::format("{}/{}/{}.png", folder, split, image));
    write_label_values(fmt::format("{}/{}/{}_mask.png", folder, split, image), {0, 1, 2, 255});
    write_text(fmt::format("{}/{}/_classes.csv", folder, split),
               "Pixel Value, Class\n0, background\n1, bolt\n2, nut\n");
  }
}
void write_many_classes(const std::string& folder) {
  std::string names;
  for (int i = 0; i < 300; ++i) names += fmt::format("class {}\n", i);
  for (const auto& [split, image] : {std::pair{"train", "a"}, std::pair{"val", "b"}}) {
    write_picture(fmt::format("{}/images/{}/{}.png", folder, split, image));
    write_label_values(fmt::format("{}/masks/{}/{}.png", folder, split, image), {299, 254, 65535, 0});
  }
  write_text(folder + "/masks/classes.txt", names);
}

// Returns what a set says, in classes and labels.
std::string labels_said_by(const DataPaths& paths) {
  const auto set = open_dataset(paths);
  std::string text = fmt::format("{}:", fmt::join(set->class_names(), ","));
  for (int64_t i = 0; i < set->num_images(); ++i) {
    text += "\n" + set->file_name(i) + " " + std::to_string(read_bytes(set->image_path(i)).size());
    for (const uint16_t label : set->label_map_of(i, {20, 20}).values) text += " " + std::to_string(label);
  }
  return text;
}
std::string labels_said_by(const std::string& folder) {
  const DataSplits splits = find_splits(folder, "", {.label_maps = true});
  EXPECT_TRUE(splits.train && splits.val) << folder;
  return labels_said_by(*splits.train) + "\n" + labels_said_by(*splits.val);
}

TEST(DataOfLabelMaps, CheckReportAndConvertEachLayout) {
  for (const auto& [layout, write] :
       std::vector<std::pair<std::string, WriteSet>>{{"ade", write_ade},
                                                     {"cityscapes", write_cityscapes},
                                                     {"voc", write_voc_maps},
                                                     {"cvat", write_cvat_maps},
                                                     {"roboflow", write_roboflow},
                                                     {"sixteen", write_sixteen_bits},
                                                     {"many", write_many_classes}}) {
    SCOPED_TRACE(layout);
    TestFolder dir;
    write(dir / "in");
    EXPECT_EQ(run_command({"data", "check", "--data", dir / "in"}), 0);
    ASSERT_EQ(run_command({"data", "report", "--data", dir / "in", "--output", dir / "page.html"}), 0);
    const std::string page = read_bytes(dir / "page.html");
    for (const char* part :
         {"Without a class", "Median fraction", "For each class, the images in which it covers the most."})
      EXPECT_NE(page.find(part), std::string::npos) << part;
    EXPECT_EQ(page.find("Odd boxes"), std::string::npos);
    EXPECT_EQ(page.find("--fix"), std::string::npos);
    ASSERT_EQ(run_command({"data", "convert", dir / "in", dir / "out"}), 0);
    EXPECT_EQ(labels_said_by(dir / "in"), labels_said_by(dir / "out"));
    EXPECT_EQ(run_command({"data", "check", "--data", dir / "out"}), 0);
    EXPECT_EQ(read_stored_pixels((fs::directory_iterator(dir / "out/masks/val")->path().extension() == ".png"
                                      ? fs::directory_iterator(dir / "out/masks/val")->path()
                                      : fs::directory_iterator(dir / "out/masks/val/ulm")->path())
                                     .string())
                  .bits,
              layout == "many" ? 16 : 8);
    // Converted once more, and by path.
    ASSERT_EQ(run_command({"data", "convert", dir / "out", dir / "again"}), 0);
    EXPECT_EQ(labels_said_by(dir / "again"), labels_said_by(dir / "out"));
    EXPECT_EQ(run_command({"data", "convert", dir / "out/masks/train", dir / "one", "--images",
                           dir / "out/images/train"}),
              0);
    EXPECT_FALSE(fs::exists(dir / "one/masks/val"));
    EXPECT_EQ(run_command({"data", "convert", dir / "in", dir / "out"}), 2) << "it already exists";
  }
}

TEST(DataOfLabelMaps, MasksAreDrawnWhereThatIsAskedFor) {
  TestFolder dir;
  ASSERT_EQ(run_command(
                {"data", "shapes", "--output", dir / "set", "--images", "3", "--seed", "1", "--size", "64"}),
            0);
  const auto drawn = open_dataset(
      {.annotations = dir / "set/label_maps", .images = dir / "set/images", .wants = {.label_maps = true}});
  fs::remove_all(dir / "set/label_maps");
  ASSERT_EQ(run_command({"data", "convert", dir / "set", dir / "out", "--to", "label_maps"}), 0);
  const auto set = open_dataset(*find_splits(dir / "out", "", {.label_maps = true}).train);
  ASSERT_EQ(set->num_images(), 3);
  for (int64_t i = 0; i < 3; ++i) {
    const LabelMap made = set->label_map_of(i, {64, 64});
    EXPECT_NE(std::ranges::count(made.values, made.values[0]), std::ssize(made.values));
  }
  EXPECT_EQ(set->num_classes(), drawn->num_classes());
}

// The folders' names say what they are, but the maps have another form.
TEST(DataOfLabelMaps, AreNoClassFolders) {
  for (const auto& [images, maps] :
       {std::pair{"images", "masks"}, std::pair{"train/Image_files", "train/Segmentation"}}) {
    TestFolder dir;
    for (const char* kind : {images, maps}) {
      write_picture(fmt::format("{}/{}/a.png", dir / "in", kind));
      fs::rename(fmt::format("{}/{}/a.png", dir / "in", kind), fmt::format("{}/{}/a.jpg", dir / "in", kind));
    }
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_command({"data", "check", "--data", dir / "in"}), 2);
    const std::string error = testing::internal::GetCapturedStderr();
    EXPECT_NE(error.find("may be images and label maps"), std::string::npos) << error;
    // Other folders next to them are classes.
    write_picture(
        fmt::format("{}/{}/a.png", dir / "in", std::string(images) == "images" ? "cats" : "train/cats"));
    EXPECT_EQ(run_command({"data", "check", "--data", dir / "in"}), 0);
  }
}

// The second split has a fault, or names would become one.
TEST(DataOfLabelMaps, NothingHalfWrittenIsLeft) {
  TestFolder dir;
  write_ade(dir / "in");
  write_label_values(dir / "in/annotations/validation/b.png", {77});
  EXPECT_EQ(run_command({"data", "convert", dir / "in", dir / "out"}), 2);
  EXPECT_FALSE(fs::exists(dir / "out"));
  EXPECT_EQ(run_command({"data", "report", "--data", dir / "in", "--output", dir / "page.html"}), 0);
  EXPECT_NE(read_bytes(dir / "page.html").find("400 pixels have the value 77"), std::string::npos);
  fs::create_directories(dir / "out");
  EXPECT_EQ(run_command({"data", "convert", dir / "in", dir / "out"}), 2);
  EXPECT_TRUE(fs::is_empty(dir / "out"));
  write_text(dir / "full/mine.txt", "x");
  EXPECT_EQ(run_command({"data", "convert", dir / "in", dir / "full"}), 2);
  EXPECT_EQ(read_bytes(dir / "full/mine.txt"), "x");
}

}  // namespace
}  // namespace saccade
