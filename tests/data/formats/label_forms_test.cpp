// Tests label files for other programs: what is written is read back without loss, and what a form cannot say
// is noted.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/formats/coco/coco.h"
#include "data/formats/cvat/cvat_xml.h"
#include "data/formats/splits.h"
#include "data/images/image.h"
#include "data/labels/label_forms.h"
#include "tests/input_error.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<const Segmentation> some_polygon() {
  auto segmentation = std::make_shared<Segmentation>();
  segmentation->polygons = {{10.25, 4, 20.5, 4, 20.5, 12.75}};
  return segmentation;
}

// Three images of 31 x 17 pixels, one without objects, with numbers as people and programs write them.
GroundTruth small_truth() {
  GroundTruth truth;
  truth.categories = {{3, "dog"}, {7, "a <b> & \"c\""}};
  for (const char* name : {"1.png", "deep/2.png", "3.png"}) {
    ImageInfo image;
    image.id = std::ssize(truth.images) + 1;
    image.file_name = name;
    image.width = 31;
    image.height = 17;
    truth.images.push_back(image);
  }
  const std::array<double, 4> boxes[] = {{1, 2, 10, 11}, {0.1, 0.2, 30.3, 16.7}, {7.77, 3.33, 0.01, 5.05}};
  for (size_t i = 0; i < 3; ++i) {
    Annotation a;
    a.id = static_cast<int64_t>(i) + 1;
    a.image_id = i < 2 ? 1 : 2;
    a.category_id = i == 1 ? 7 : 3;
    a.bbox = boxes[i];
    a.area = a.bbox[2] * a.bbox[3];
    truth.annotations.push_back(a);
  }
  return truth;
}

class LabelForms : public testing::Test {
 protected:
  // Writes files in the layout of `data convert`.
  LabelFiles write(const std::string& form, const GroundTruth& truth, const std::string& split = "train") {
    fs::create_directories(dir_ / "images/deep");
    for (const ImageInfo& image : truth.images)
      write_png(Image(image.height, image.width), dir_ / ("images/" + image.file_name));
    const LabelList list{
        .truth = truth, .split = split, .images = dir_ / "images", .description = "made by a test"};
    LabelFiles files = label_forms().find(form).write({&list, 1});
    for (const LabelFiles::File& file : files.files) {
      fs::create_directories(fs::path(dir_ / ("out/" + file.name)).parent_path());
      write_bytes(dir_ / ("out/" + file.name), file.text);
    }
    for (const LabelFiles::Pictures& pictures : files.pictures) {
      fs::create_directories(fs::path(dir_ / ("out/" + pictures.name)).parent_path());
      fs::copy(dir_ / "images", dir_ / ("out/" + pictures.name), fs::copy_options::recursive);
    }
    return files;
  }
  GroundTruth read() {
    const DataSplits found = find_splits(dir_ / "out");
    return open_dataset(*found.train)->ground_truth();
  }
  void expect_same(const GroundTruth& read, const GroundTruth& truth, double tolerance) {
    ASSERT_EQ(read.images.size(), truth.images.size());
    ASSERT_EQ(read.annotations.size(), truth.annotations.size());
    // YOLO's names begin with the folders of the split.
    auto name = [](const GroundTruth& t, int64_t id) {
      return "/" + std::ranges::find(t.images, id, &ImageInfo::id)->file_name;
    };
    for (const Annotation& a : truth.annotations) {
      const auto same = std::ranges::find_if(read.annotations, [&](const Annotation& b) {
        for (size_t i = 0; i < 4; ++i)
          if (std::abs(a.bbox[i] - b.bbox[i]) > tolerance) return false;
        return name(read, b.image_id).ends_with(name(truth, a.image_id)) && a.iscrowd == b.iscrowd &&
               category_name(read, b.category_id) == category_name(truth, a.category_id);
      });
      EXPECT_NE(same, read.annotations.end()) << a.id;
    }
  }

  TestFolder dir_;
};

TEST_F(LabelForms, YoloComesBackToTheBit) {
  GroundTruth truth = small_truth();
  EXPECT_TRUE(write("yolo", truth).notes.empty());
  expect_same(read(), truth, 0);
  EXPECT_EQ(read_bytes(dir_ / "out/labels/train/3.txt"), "");
}

TEST_F(LabelForms, YoloHasPolygonsWhereAllObjectsDo) {
  GroundTruth truth = small_truth();
  truth.annotations.resize(1);
  truth.annotations[0].bbox = {10.25, 4, 10.25, 8.75};
  truth.annotations[0].segmentation = some_polygon();
  EXPECT_EQ(write("yolo", truth).notes,
            std::vector<std::string>{"train: 1 area of an object is left out: YOLO has none, so those of the "
                                     "boxes count"});
  expect_same(read(), truth, 0);
  const GroundTruth masks = open_dataset(with_masks(*find_splits(dir_ / "out").train))->ground_truth();
  ASSERT_TRUE(masks.annotations.at(0).segmentation);
  EXPECT_EQ(masks.annotations[0].segmentation->polygons, some_polygon()->polygons);
}

// Runs and several polygons become one polygon with the same pixels.
TEST_F(LabelForms, YoloHasRunsAsPolygons) {
  GroundTruth truth = small_truth();
  truth.annotations.resize(2);
  const ImageInfo& image = truth.images[0];
  const ImageSize size{image.height, image.width};
  std::vector<uint8_t> pixels(static_cast<size_t>(size.height * size.width), 0);
  // A ring with a gap, and a separate part.
  for (int64_t y = 2; y < 9; ++y)
    for (int64_t x = 3; x < 12; ++x)
      pixels[static_cast<size_t>(y * size.width + x)] = (y < 4 || y > 6 || x < 5 || x > 9) && x != 7;
  pixels[static_cast<size_t>(12 * size.width + 14)] = 1;
  auto runs = std::make_shared<Segmentation>();
  runs->runs = Mask::from_bitmap(size, pixels);
  auto two = std::make_shared<Segmentation>();
  two->polygons = {{1, 1, 6, 1, 6, 5, 1, 5}, {8, 7, 15, 7, 15, 12}};
  const std::shared_ptr<const Segmentation> forms[] = {runs, two};
  std::vector<Mask> masks;
  for (size_t k = 0; k < 2; ++k) {
    Annotation& a = truth.annotations[k];
    a.image_id = image.id;
    a.segmentation = forms[k];
    masks.push_back(a.segmentation->mask(size));
    const Box box = k == 0 ? masks[0].box() : Box{1, 1, 15, 12};
    a.bbox = {box.x1, box.y1, box.width(), box.height()};
    a.area = box.area();
  }
  EXPECT_TRUE(write("yolo", truth).notes.empty());
  expect_same(read(), truth, 0);
  const GroundTruth back = open_dataset(with_masks(*find_splits(dir_ / "out").train))->ground_truth();
  for (size_t k = 0; k < 2; ++k) {
    ASSERT_TRUE(back.annotations.at(k).segmentation);
    EXPECT_EQ(back.annotations[k].segmentation->mask(size), masks[k]) << k;
  }
  // A mask of noise must not take long.
  fs::remove_all(dir_ / "out");
  ImageInfo& large = truth.images[0];
  large.width = large.height = 1200;
  std::vector<uint8_t> noise(1200 * 1200, 0);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = (i / 1200 + i % 1200) % 2 == 0;
  GroundTruth noisy = truth;
  noisy.annotations.resize(1);
  auto checkers = std::make_shared<Segmentation>();
  checkers->runs = Mask::from_bitmap({1200, 1200}, noise);
  noisy.annotations[0].segmentation = checkers;
  noisy.annotations[0].bbox = {0, 0, 1200, 1200};
  const LabelList noise_list{.truth = noisy};
  ASSERT_EQ(label_forms().find("yolo").write({&noise_list, 1}).notes.size(), 2u);  // and areas
  large.width = size.width, large.height = size.height;
  // The note names the first annotation without a mask.
  fs::remove_all(dir_ / "out");
  truth.annotations[1].bbox = {1, 1, 12, 11};
  truth.annotations[1].area = 12 * 11;
  truth.annotations[1].id = 70;
  const LabelFiles files = write("yolo", truth);
  ASSERT_EQ(files.notes.size(), 1u);
  EXPECT_NE(files.notes[0].find("2 masks are left out"), std::string::npos) << files.notes[0];
  EXPECT_NE(files.notes[0].find("but annotation 70 has none"), std::string::npos) << files.notes[0];
}

TEST_F(LabelForms, WhatYoloLacksIsSaid) {
  GroundTruth truth = small_truth();
  truth.annotations[0].iscrowd = true;
  truth.annotations[1].segmentation = some_polygon();  // its box is not the annotation's
  const LabelFiles files = write("yolo", truth);
  ASSERT_EQ(files.notes.size(), 2u);
  EXPECT_EQ(files.notes[0], "train: 1 crowd is left out: YOLO has none");
  EXPECT_NE(files.notes[1].find("train: 1 mask is left out"), std::string::npos);
  EXPECT_EQ(read().annotations.size(), 2u);
  const LabelList list{.truth = truth};
  EXPECT_EQ(label_forms().find("cvat").write({&list, 1}).notes,
            std::vector<std::string>{"1 crowd is written like any object: CVAT has no crowds"});
}

TEST_F(LabelForms, AreasThatAreNotThoseOfBoxesAreSaidToBeLost) {
  GroundTruth truth = small_truth();
  truth.annotations[0].area -= 1;
  truth.annotations[1].area -= 0.9;  // rounded
  for (const char* form : {"yolo", "voc"}) {
    const LabelFiles files = write(form, truth);
    ASSERT_EQ(files.notes.size(), 1u) << form;
    EXPECT_NE(files.notes[0].find("train: 1 area of an object is left out"), std::string::npos)
        << files.notes[0];
    fs::remove_all(dir_ / "out");
  }
  const LabelList list{.truth = truth};
  for (const char* form : {"cvat", "labelstudio"})
    EXPECT_EQ(label_forms().find(form).write({&list, 1}).notes.size(), 1u) << form;
  truth.annotations[0].segmentation = some_polygon();  // a lost mask does not tell the area either
  EXPECT_EQ(label_forms().find("voc").write({&list, 1}).notes,
            (std::vector<std::string>{
                "1 mask is left out: VOC's XML has none",
                "1 area of an object is left out: VOC has none, so those of the boxes count"}));
}

TEST_F(LabelForms, VocComesBack) {
  GroundTruth truth = small_truth();
  truth.annotations[0].iscrowd = true;
  EXPECT_TRUE(write("voc", truth).notes.empty());
  expect_same(read(), truth, 1e-12);
  EXPECT_EQ(read().categories.at(0).name, "dog") << "classes.txt keeps the order";
}

TEST_F(LabelForms, ImagesThatWouldShareLabelsAreRefused) {
  GroundTruth truth = small_truth();
  truth.images[2].file_name = "1.jpg";
  for (const char* form : {"yolo", "voc"}) {
    const LabelList list{.truth = truth};
    EXPECT_NE(input_error([&] {
                label_forms().find(form).write({&list, 1});
              }).find(std::string("1.png and 1.jpg: would share the ") + form + " label file "),
              std::string::npos);
  }
  truth.images[2].file_name = "../../1.jpg";
  const LabelList list{.truth = truth};
  EXPECT_NE(input_error([&] {
              label_forms().find("yolo").write({&list, 1});
            }).find("leads out of the folder"),
            std::string::npos);
}

// The file keeps boxes, polygons, and runs such as a model's detections have.
TEST_F(LabelForms, CvatComesBackWithMasks) {
  GroundTruth truth = small_truth();
  truth.annotations[0].segmentation = some_polygon();
  std::vector<uint8_t> pixels(31 * 17, 0);
  for (const size_t pixel : {5 * 31 + 4, 5 * 31 + 5, 6 * 31 + 5, 8 * 31 + 9}) pixels[pixel] = 1;
  auto runs = std::make_shared<Segmentation>();
  runs->runs = Mask::from_bitmap({17, 31}, pixels);
  truth.annotations[1].segmentation = runs;
  write("cvat", truth, "");
  const CvatFile file = read_cvat_xml(dir_ / "out/annotations.xml", true);
  EXPECT_TRUE(file.problems.empty());
  ASSERT_EQ(file.images.size(), 3u);
  EXPECT_EQ(file.labels, (std::vector<std::string>{"dog", "a <b> & \"c\""}));
  EXPECT_EQ(file.images[1].name, "deep/2.png");
  ASSERT_EQ(file.images[0].objects.size(), 2u);
  ASSERT_TRUE(file.images[0].objects[0].segmentation);
  EXPECT_EQ(file.images[0].objects[0].segmentation->polygons, some_polygon()->polygons);
  ASSERT_TRUE(file.images[0].objects[1].segmentation) << file.images[0].objects[1].mask_fault;
  EXPECT_EQ(file.images[0].objects[1].segmentation->runs, runs->runs);
  EXPECT_EQ(file.images[1].objects.at(0).box.x1, 7.77);
  EXPECT_TRUE(file.images[2].objects.empty());
}

TEST_F(LabelForms, LabelStudioHasPercentAndScores) {
  GroundTruth truth = small_truth();
  truth.annotations[0].score = 0.75;
  write("labelstudio", truth, "");
  const std::string text = read_bytes(dir_ / "out/tasks.json");
  EXPECT_NE(text.find("\"image\": \"/data/local-files/?d=deep/2.png\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"score\": 0.75"), std::string::npos) << text;
  EXPECT_NE(text.find("\"x\": " + fmt::format("{}", 100.0 / 31)), std::string::npos) << text;
  EXPECT_NE(text.find("3.png\"}, \"predictions\": [{\"model_version\": \"saccade\", \"result\": []}]}"),
            std::string::npos)
      << text;
  EXPECT_NE(
      read_bytes(dir_ / "out/labeling_config.xml").find("<Label value=\"a &lt;b&gt; &amp; &quot;c&quot;\"/>"),
      std::string::npos);
}

TEST_F(LabelForms, CocoHasScores) {
  GroundTruth truth = small_truth();
  truth.annotations[0].score = 0.75;
  write("coco", truth, "");
  EXPECT_NE(read_bytes(dir_ / "out/annotations.json").find("\"score\":0.75"), std::string::npos);
  expect_same(read_coco({.annotations = dir_ / "out/annotations.json", .images = ""},
                        [](const std::string& problem) { FAIL() << problem; }),
              truth, 0);
}

}  // namespace
}  // namespace saccade
