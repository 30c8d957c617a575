// Tests label maps as ADE20K, Cityscapes, Pascal VOC and CVAT write them, and their faults.
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "data/formats/checks/findings.h"
#include "data/formats/data_format.h"
#include "data/formats/splits.h"
#include "data/images/stored_pixels.h"
#include "data/loading/loader.h"
#include "tests/data/formats/test_sets.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::write_picture;
using test::write_text;

constexpr ImageSize kMapSize{20, 20};
using MapValues = std::vector<uint16_t>;

// Writes a label map of 20 x 20 pixels, with these values one after another.
void write_map(const std::string& path, const MapValues& values, const std::vector<uint32_t>& palette = {}) {
  fs::create_directories(fs::path(path).parent_path());
  std::vector<uint16_t> pixels(400);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = values[i % values.size()];
  write_stored_pixels(path, kMapSize, pixels, palette);
}
// Writes the same in colours.
void write_colors(const std::string& path, const std::vector<uint32_t>& colors) {
  fs::create_directories(fs::path(path).parent_path());
  Image image(20, 20);
  for (size_t i = 0; i < 400; ++i)
    for (size_t c = 0; c < 3; ++c)
      image.rgb[3 * i + c] = static_cast<uint8_t>(colors[i % colors.size()] >> (16 - 8 * c));
  write_png(image, path);
}

// Returns "id name, ...; label label ..." of the first pixels of a split's first image, "-" for ignored ones.
std::string read_first(const DataPaths& split, LabelMapOptions options, size_t pixels) {
  DataPaths paths = split;
  paths.label_maps = std::move(options);
  const auto set = open_dataset(paths);
  std::string text;
  for (const Category& c : set->ground_truth().categories)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", c.id, c.name);
  const LabelMap map = set->label_map_of(0, kMapSize);
  for (size_t i = 0; i < pixels; ++i)
    text +=
        (i == 0 ? "; " : " ") + (map.values[i] == LabelMap::kIgnored ? "-" : std::to_string(map.values[i]));
  return text;
}

template <class F>
void expect_label_error(F&& f, const std::string& part) {
  const std::string error = input_error(f);
  EXPECT_NE(error.find(part), std::string::npos) << error;
}

class LabelMaps : public ::testing::Test {
 protected:
  void pair(const std::string& image, const std::string& map, const MapValues& values) {
    write_picture(folder / image);
    write_map(folder / map, values);
  }
  DataSplits find(const std::string& below = "") {
    return find_splits(folder / below, "", {.label_maps = true});
  }
  std::vector<std::string> problems(LabelMapOptions options = {}) {
    DataPaths paths = *find().train;
    paths.label_maps = std::move(options);
    return check_dataset(paths).problems.lines();
  }
  TestFolder folder;
};

TEST_F(LabelMaps, OfAde20k) {
  for (const char* split : {"training", "validation"})
    pair(fmt::format("images/{}/a.png", split), fmt::format("annotations/{}/a.png", split), {0, 1, 2, 255});
  write_text(
      folder / "objectInfo150.txt",
      "Idx\tRatio\tTrain\tVal\tStuff\tName\n1\t0.1576\t11664\t1172\t1\twall\n2\t0.1072\t6046\t612\t1\tbuilding, edifice\n");
  const DataSplits splits = find();
  ASSERT_TRUE(splits.train && splits.val && !splits.test);
  EXPECT_EQ(splits.format, "label_maps");
  EXPECT_EQ(read_first(*splits.val, {}, 4), "1 wall, 2 building, edifice; - 0 1 -");
  // The same without the list: values, or names that are given.
  fs::remove(folder / "objectInfo150.txt");
  EXPECT_EQ(read_first(*splits.train, {}, 4), "0 0, 1 1, 2 2; 0 1 2 -");
  EXPECT_EQ(read_first(*splits.train, {.reduce_zero_label = true}, 4), "1 1, 2 2; - 0 1 -");
  EXPECT_EQ(read_first(*splits.train, {.reduce_zero_label = true, .names = {"wall", "floor"}}, 4),
            "1 wall, 2 floor; - 0 1 -");
  EXPECT_EQ(read_first(*splits.train, {.ignore = {1, 255}, .names = {"void", "x", "y"}}, 4),
            "0 void, 2 y; 0 - 1 -");
}

TEST_F(LabelMaps, OfCityscapes) {
  for (const char* split : {"train", "val"}) {
    const std::string image = fmt::format("leftImg8bit/{}/ulm/ulm_0_0_leftImg8bit.png", split),
                      map = fmt::format("gtFine/{}/ulm/ulm_0_0_gtFine_", split);
    pair(image, map + "labelIds.png", {0, 7, 33, 6});
    write_map(folder / (map + "instanceIds.png"), {26001});
    write_colors(folder / (map + "color.png"), {0x804080});
  }
  const DataSplits splits = find();
  ASSERT_TRUE(splits.train && splits.val);
  const std::string read = read_first(*splits.train, {}, 4);
  EXPECT_TRUE(read.starts_with("7 road, 8 sidewalk, 11 building,")) << read;
  EXPECT_TRUE(read.ends_with("33 bicycle; - 0 18 -")) << read;
  write_map(folder / "gtFine/train/ulm/ulm_0_0_gtFine_labelTrainIds.png", {255, 0, 18, 255});
  const std::string trained = read_first(*splits.train, {}, 4);
  EXPECT_TRUE(trained.starts_with("0 road, 1 sidewalk,") && trained.ends_with("18 bicycle; - 0 18 -"))
      << trained;
}

TEST_F(LabelMaps, OfPascalVocAndCvat) {
  const std::vector<uint32_t> palette{0, 0x800000, 0x008000};
  std::vector<uint32_t> whole(256, 0xe0e0c0);
  std::ranges::copy(palette, whole.begin());
  write_picture(folder / "JPEGImages/a.png");
  write_picture(folder / "JPEGImages/b.png");
  write_map(folder / "SegmentationClass/a.png", {0, 1, 2, 255}, whole);
  write_map(folder / "SegmentationClass/b.png", {0}, whole);
  write_text(folder / "ImageSets/Segmentation/train.txt", "a\n");
  write_text(folder / "ImageSets/Segmentation/val.txt", "b\n");
  const DataSplits voc = find();
  ASSERT_TRUE(voc.train && voc.val);
  const std::string read = read_first(*voc.train, {}, 4);
  EXPECT_TRUE(read.starts_with("0 background, 1 aeroplane,") && read.ends_with("20 tvmonitor; 0 1 2 -"))
      << read;
  // CVAT's list says which colour is which class, of palettes and of colours.
  write_text(folder / "labelmap.txt",
             "# label:color_rgb:parts:actions\nnut:0,128,0::\nbackground:0,0,0::\nbolt:128,0,0::\n");
  EXPECT_EQ(read_first(*voc.train, {}, 4), "0 nut, 1 background, 2 bolt; 1 2 0 -");
  write_colors(folder / "SegmentationClass/a.png", {0, 0x800000, 0x008000, 0xe0e0c0});
  EXPECT_EQ(read_first(*voc.train, {}, 4), "0 nut, 1 background, 2 bolt; 1 2 0 -");
  fs::rename(folder / "ImageSets/Segmentation/train.txt", folder / "ImageSets/Segmentation/Train.txt");
  EXPECT_EQ(find().train->annotations, folder / "ImageSets/Segmentation/Train.txt");
}

// Images, their maps and the list of classes are in one folder.
TEST_F(LabelMaps, OfRoboflow) {
  for (const char* split : {"train", "valid"}) {
    pair(fmt::format("{}/a_jpg.rf.0f.png", split), fmt::format("{}/a_jpg.rf.0f_mask.png", split),
         {0, 1, 3, 0});
    write_text(folder / fmt::format("{}/_classes.csv", split),
               "Pixel Value, Class\n0, background\n1, bolt, long\n3, nut\n");
  }
  const DataSplits splits = find();
  ASSERT_TRUE(splits.train && splits.val);
  EXPECT_EQ(read_first(*splits.train, {}, 4), "0 background, 1 bolt, long, 3 nut; 0 1 2 0");
  EXPECT_EQ(open_dataset(*splits.val)->ground_truth().images.size(), 1U);
  EXPECT_EQ(problems(), std::vector<std::string>());
  // A folder without splits.
  const DataSplits one = find("train");
  ASSERT_TRUE(one.train && !one.val);
  EXPECT_EQ(read_first(*one.train, {}, 2), "0 background, 1 bolt, long, 3 nut; 0 1");
  // Images and maps that lack each other, and a list of another kind.
  write_picture(folder / "train/b.png");
  write_map(folder / "train/c_mask.png", {0});
  const std::string text = fmt::format("{}", fmt::join(problems(), "\n"));
  for (const std::string& part :
       {std::string("train/b.png: has no label map, expected "), folder / "train/b_mask.png",
        "train/c_mask.png: has no image, expected c in " + (folder / "train")})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  fs::remove(folder / "train/b.png");
  fs::remove(folder / "train/c_mask.png");
  for (const auto& [list, part] :
       {std::pair{"filename, bolt\n", "line 1: expected \"Pixel Value, Class\""},
        {"Pixel Value, Class\n0\n", "line 2: expected a value and a class"},
        {"Pixel Value, Class\nx, bolt\n", "line 2: \"x\", expected a whole number"}}) {
    write_text(folder / "train/_classes.csv", list);
    expect_label_error([&] { (void)read_first(*find().train, {}, 1); }, part);
  }
}

// Pixels of classes that are left out or trained as others are not counted in advance.
TEST_F(LabelMaps, OfSomeClasses) {
  pair("images/a.png", "masks/a.png", {0, 1, 2, 3});
  write_text(folder / "classes.txt", "sky\nsea\nship\nbuoy\n");
  DataPaths paths = *find().train;
  paths.choice = {.map = {{"ship", "sea"}}, .only = {"sky", "sea"}};
  const auto set = open_dataset(paths);
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"sky", "sea"}));
  const MapValues labels = set->label_map_of(0, kMapSize).values;
  EXPECT_EQ(MapValues(labels.begin(), labels.begin() + 4), (MapValues{0, 1, 1, LabelMap::kIgnored}));
  EXPECT_EQ(set->ground_truth().notes,
            (std::vector<std::string>{"pixels mapped to other classes: \"ship\" as \"sea\"",
                                      "pixels of 1 class count as pixels without a class: \"buoy\""}));
}

// Maps such as those of Cityscapes' test split are no fault, but training and evaluation refuse them.
TEST_F(LabelMaps, WithoutALabelAreTold) {
  pair("images/a.png", "masks/a.png", {255});
  pair("images/b.png", "masks/b.png", {255});
  write_text(folder / "classes.txt", "sky\nsea\n");
  const auto is_told = [&] {
    const DatasetReport report = check_dataset(*find().train);
    EXPECT_EQ(report.problems.lines(), std::vector<std::string>());
    return std::ranges::count(report.remarks,
                              "no pixel has a class, so there is nothing to learn or to evaluate");
  };
  EXPECT_EQ(is_told(), 1);
  write_map(folder / "masks/b.png", {255, 1});
  EXPECT_EQ(is_told(), 0);
  // Without a list, the values are the classes, and there are none.
  std::filesystem::remove(folder / "classes.txt");
  write_map(folder / "masks/b.png", {255});
  const std::vector<std::string> problems = check_dataset(*find().train).problems.lines();
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("no pixel of its 2 label maps has a class"), std::string::npos) << problems[0];
}

TEST_F(LabelMaps, OfFoldersWithSixteenBits) {
  pair("train/images/x/a.png", "train/masks/x/a_mask.png", {1000, 65535, 7, 1000});
  pair("valid/images/b.png", "valid/masks/b.png", {7});
  const DataSplits splits = find();
  ASSERT_TRUE(splits.train && splits.val);
  EXPECT_EQ(read_first(*splits.train, {}, 4), "7 7, 1000 1000; 1 - 0 1");
  EXPECT_EQ(read_first(*splits.val, {}, 2),
            "7 7, 1000 1000; 0 0");  // values of the other split are classes too
  EXPECT_EQ(read_first(*splits.val, {.names = {"a", "b", "c", "d", "e", "f", "g", "h"}}, 2).substr(0, 8),
            "0 a, 1 b");
}

TEST_F(LabelMaps, AreDrawnOfMasks) {
  write_picture(folder / "images/a.png");
  write_text(folder / "annotations.json", R"({"images":[{"id":1,"file_name":"a.png","width":20,"height":20}],
"annotations":[{"id":1,"image_id":1,"category_id":3,"bbox":[0,0,1,1],"area":1,"segmentation":[[0,0,1,0,1,1,0,1]]},
{"id":2,"image_id":1,"category_id":5,"bbox":[0,0,3,1],"area":3,"segmentation":[[0,0,3,0,3,1,0,1]]}],
"categories":[{"id":3,"name":"nut"},{"id":5,"name":"bolt"}]})");
  const DataSplits splits = find();
  ASSERT_TRUE(splits.train);
  EXPECT_EQ(splits.format, "coco");
  EXPECT_EQ(read_first(*splits.train, {}, 4),
            "0 background, 3 nut, 5 bolt; 1 2 2 0");  // smaller objects are on top
  EXPECT_EQ(read_first(*splits.train, {.background = ""}, 4), "3 nut, 5 bolt; 0 1 1 -");
  // Existing maps are used, not those that could be made.
  write_map(folder / "label_maps/a.png", {9});
  EXPECT_EQ(find().format, "label_maps");
}

TEST_F(LabelMaps, FollowTheChosenClasses) {
  pair("images/a.png", "masks/a.png", {0, 1, 2, 3});
  write_text(folder / "masks/classes.txt", "sky\nsea\nsand\nrock\n");
  DataPaths paths = *find().train;
  paths.choice = {.map = {{"sand", "ground"}, {"rock", "ground"}, {"sky", ""}}};
  EXPECT_EQ(read_first(paths, {}, 4), "1 sea, 2 ground; - 0 1 1");
  DataPaths both = paths;
  both.choice = {};
  both.sets = {*find().train, *find().train};
  EXPECT_EQ(open_dataset(both)->num_images(), 2);
}

// Training gets label maps augmented like their images; an evaluation asks for them unchanged, and reads them
// once.
TEST_F(LabelMaps, OfALoaderAreThoseOfItsImageOrOfTheFile) {
  pair("images/a.png", "masks/a.png", {0, 1, 2, 3});
  const auto set = open_dataset(*find().train);
  LoaderOptions options;
  options.augment = make_augmentation({{{"short_sides", {40}}}});
  options.epochs = 1;
  for (const auto& [of, side] :
       {std::pair{LabelMapsOf::kAugmentedImage, 40}, std::pair{LabelMapsOf::kFile, 20}}) {
    options.label_maps = of;
    DataLoader loader(set, options);
    const std::optional<Batch> batch = loader.next();
    ASSERT_TRUE(batch && batch->targets.at(0).label_map);
    EXPECT_EQ(batch->targets[0].frame, (ImageSize{40, 40}));
    EXPECT_EQ(*batch->targets[0].label_map, set->label_map_of(0, {20, 20}).resize({side, side}));
  }
}

TEST_F(LabelMaps, AreCheckedFileByFile) {
  for (const char* name : {"a", "b", "c", "d"})
    pair(fmt::format("images/{}.png", name), fmt::format("masks/{}.png", name), {0, 1});
  EXPECT_EQ(problems(), std::vector<std::string>());
  const LabelMapOptions names{.names = {"sky", "sea"}};
  write_map(folder / "masks/a.png", {0, 77, 1, 78});
  write_stored_pixels(folder / "masks/b.png", {3, 4}, MapValues(12));
  const std::string whole = read_bytes(folder / "masks/c.png");
  write_bytes(folder / "masks/c.png", whole.substr(0, whole.size() / 2));
  fs::remove(folder / "masks/d.png");
  write_map(folder / "masks/e.png", {0});
  write_picture(folder / "images/a.PNG");
  std::string text;
  for (const std::string& line : problems(names)) text += line + "\n";
  for (const char* part :
       {"masks/a.png: 200 pixels have the values 77, 78, which are neither a class of the list nor ignored",
        "masks/b.png: has 4 x 3 pixels, but its image ", "images/b.png has 20 x 20",
        "masks/c.png: damaged image", "images/d.png: has no label map, expected ",
        "masks/e.png: has no image, expected e in ",
        "masks/a.png: is the label map of two images, the second is "})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  // Training stops at the first fault; at one that only the pixels show, when they are read.
  EXPECT_THROW((void)open_dataset(*find().train), InputError);
  fs::remove(folder / "images/a.PNG");
  for (const char* name : {"b", "c", "d", "e"})
    for (const char* kind : {"images", "masks"}) fs::remove(folder / fmt::format("{}/{}.png", kind, name));
  expect_label_error([&] { (void)read_first(*find().train, names, 1); }, "values 77, 78");
}

TEST_F(LabelMaps, OfMmsegmentationsFoldersAndInCapitals) {
  pair("img_dir/train/a.png", "ann_dir/train/a.png", {0, 1});
  pair("img_dir/val/b.PNG", "ann_dir/val/b.PNG", {0, 1});
  const DataSplits splits = find();
  ASSERT_TRUE(splits.train && splits.val);
  EXPECT_EQ(read_first(*splits.train, {}, 2), "0 0, 1 1; 0 1");
  EXPECT_EQ(read_first(*splits.val, {}, 2), "0 0, 1 1; 0 1");
  pair("capital/Images/train/a.png", "capital/Masks/train/a.png", {0, 1});
  EXPECT_EQ(find("capital").train->annotations, folder / "capital/Masks/train");
  // A second map of an image is a problem.
  write_map(folder / "ann_dir/train/a.PNG", {1});
  EXPECT_EQ(
      check_dataset(*splits.train).problems.lines(),
      std::vector<std::string>{folder / "ann_dir/train/a.PNG: is a second label map of the image that " +
                               (folder / "ann_dir/train/a.png belongs to")});
  // A split without maps is not skipped in silence.
  fs::rename(folder / "ann_dir/val/b.PNG", folder / "ann_dir/val/b.jpg");
  const DataSplits left = find();
  EXPECT_FALSE(left.val);
  EXPECT_EQ(left.notes,
            std::vector<std::string>{folder / "ann_dir/val: has no label maps (PNG files) and is left out"});
  // A list finds the maps in the same way.
  write_picture(folder / "JPEGImages/c.png");
  write_map(folder / "SegmentationClass/c.PNG", {0, 1});
  write_text(folder / "ImageSets/Segmentation/train.txt", "c\n");
  const std::string read = read_first(*find().train, {}, 2);
  EXPECT_TRUE(read.ends_with("20 tvmonitor; 0 1")) << read;
}

// 255 is no class by default, so masks of 0 and 255 would have only one class, which any model finds.
TEST_F(LabelMaps, MasksOf255AreNotOfOneClass) {
  for (int i = 0; i < 20; ++i)
    pair(fmt::format("images/{}.png", i), fmt::format("masks/{}.png", i), {0, 255});
  const auto refused = [&](const LabelMapOptions& options) {
    expect_label_error([&] { (void)read_first(*find().train, options, 1); },
                       "masks/0.png: this and the other label maps have only the values 0 and 255");
  };
  refused({});
  refused({.names = {"background", "object"}});
  EXPECT_EQ(read_first(*find().train, {.ignore = {255}}, 2), "0 0; 0 -");
  EXPECT_EQ(read_first(*find().train, {.names = {"a", "b", "c"}}, 2), "0 a, 1 b, 2 c; 0 -");
  write_text(folder / "labelmap.txt", "background:0,0,0::\nobject:255,255,255::\n");
  EXPECT_EQ(read_first(*find().train, {}, 2), "0 background, 1 object; 0 1");
  fs::remove(folder / "labelmap.txt");
  write_map(folder / "masks/13.png", {0, 1, 255});
  EXPECT_EQ(read_first(*find().train, {.names = {"background", "object"}}, 2), "0 background, 1 object; 0 -");
}

// Faults that the files' headers show are refused before training begins.
TEST_F(LabelMaps, OtherFilesAndTurnedOnesAreRefused) {
  pair("images/a.png", "masks/a.png", {0, 1});
  const std::string whole = read_bytes(folder / "masks/a.png");
  const auto refused = [&](const std::string& bytes, const std::string& part) {
    write_bytes(folder / "masks/a.png", bytes);
    expect_label_error([&] { (void)open_dataset(*find().train); }, part);
    expect_label_error([&] { (void)read_stored_pixels(folder / "masks/a.png"); }, part);
  };
  refused(read_bytes(std::string(SACCADE_SOURCE_DIR) + "/tests/golden/images/turned6.jpg"),
          "a.png: not a PNG file, expected a label map as PNG");
  // An EXIF chunk behind the header: big-endian, one entry, orientation 6, and its checksum.
  using namespace std::string_literals;
  const std::string exif = "eXIfMM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"s;
  std::string chunk{'\0', '\0', '\0', static_cast<char>(exif.size() - 4)};
  chunk += exif;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(exif.data()), static_cast<uInt>(exif.size()));
  for (int shift = 24; shift >= 0; shift -= 8) chunk += static_cast<char>(sum >> shift & 255);
  refused(whole.substr(0, 33) + chunk + whole.substr(33), "a.png: is rotated by its EXIF orientation");
  write_bytes(folder / "masks/a.png", whole);
  EXPECT_EQ(read_first(*find().train, {}, 2), "0 0, 1 1; 0 1");
}

TEST_F(LabelMaps, WhatIsPassedOverIsTold) {
  pair("images/train/a.png", "masks/train/a.png", {0, 1});
  pair("images/more/b.png", "masks/more/b.png", {0, 1});
  write_text(folder / "images/train/c.heic", "x");
  write_text(folder / "masks/classes.txt", "Road\nroad\n");
  const DataSplits splits = find();
  EXPECT_EQ(splits.notes,
            std::vector<std::string>{folder / "masks/more is not one of the splits and is left out"});
  const DatasetReport report = check_dataset(*splits.train);
  const std::string told =
      fmt::format("{} {}", fmt::join(report.summary, "\n"), fmt::join(report.remarks, "\n"));
  for (const std::string& part : {"1 image in " + (folder / "images/train") + " is of an unsupported type",
                                  std::string("\"Road\" and \"road\" differ only in case")})
    EXPECT_NE(told.find(part), std::string::npos) << told;
  pair("JPEGImages/d.png", "SegmentationClass/d.png", {0});
  write_text(folder / "ImageSets/Segmentation/train.txt", "d\n");
  write_text(folder / "ImageSets/Segmentation/holdout.txt", "d\n");
  const DataSplits lists = find();
  EXPECT_EQ(lists.notes,
            std::vector<std::string>{
                folder / "ImageSets/Segmentation/holdout.txt is not one of the splits and is left out"});
}

TEST_F(LabelMaps, AreRefusedWithTheirLists) {
  pair("images/a.png", "masks/a.png", {0, 1});
  const auto refused = [&](const std::string& list, const std::string& text, const std::string& part) {
    write_text(folder / list, text);
    expect_label_error([&] { (void)read_first(*find().train, {.list = folder / list}, 1); }, part);
  };
  refused("classes.txt", "a\na\n", "the class \"a\" appears twice");
  refused("labelmap.txt", "a:0,0,0::\nb:0,0,0::\n",
          "two classes have the colour #000000, the second is \"b\"");
  refused("labelmap.txt", "a:0,0,256::\n", "line 1: \"256\", expected a whole number from 0 to 255");
  refused("labelmap.txt", "a:0,0\n", "line 1: expected name:red,green,blue:parts:actions");
  refused("objectInfo150.txt", "x\ty\n", "line 1: \"x\", expected a whole number from 0 to 65535");
  write_colors(folder / "masks/a.png", {0x102030});
  expect_label_error([&] { (void)read_first(*find().train, {.names = {"a"}}, 1); }, "has colours (#102030)");
  for (const char* list : {"labelmap.txt", "objectInfo150.txt", "classes.txt"}) fs::remove(folder / list);
  write_text(folder / "masks/a.png", "GIF89a");
  expect_label_error([&] { (void)open_dataset(*find().train); }, "a.png");
}

}  // namespace
}  // namespace saccade
