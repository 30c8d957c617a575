// Tests values worked out by hand, at places where scripts/checks/mutate.py found that a wrong program would
// not be noticed.
#include <gtest/gtest.h>

#include <set>

#include "data/augment/augment.h"
#include "data/evaluation/coco/coco_eval.h"
#include "data/evaluation/detections.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/data_format.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

constexpr uint8_t kPartColors[4][3] = {{250, 0, 0}, {0, 250, 0}, {0, 0, 250}, {250, 250, 0}};

// A sample with a square of its own colour in the middle, and its box.
Sample one_block(int64_t label) {
  Sample s;
  s.image = Image(24, 24);
  for (int64_t y = 6; y < 18; ++y)
    for (int64_t x = 6; x < 18; ++x)
      for (int c = 0; c < 3; ++c) s.image.row(y)[x * 3 + c] = kPartColors[label][c];
  s.instances.push_back({label, {6, 6, 18, 18}, 144});
  return s;
}

TEST(Mosaic, BoxesLieOnTheirObjects) {
  AugmentFields fields;
  fields.values = {{"mosaic", {1}},
                   {"mosaic_side", {24}},
                   {"min_area_ratio", {0.9}},
                   {"strong_stop_epoch", {4}},
                   {"mosaic_stop_epoch", {4}}};
  const Augmentation steps = make_augmentation(fields);
  int seen[4] = {};
  for (uint64_t seed = 0; seed < 40; ++seed) {
    int64_t next = 1;
    Rng rng(seed);
    const Sample s = augment(one_block(0), steps, rng, 1, [&](Rng&) { return one_block(next++); });
    for (const Instance& i : s.instances) {
      ++seen[i.label];
      const auto x = static_cast<int64_t>((i.box.x1 + i.box.x2) / 2),
                 y = static_cast<int64_t>((i.box.y1 + i.box.y2) / 2);
      for (int c = 0; c < 3; ++c)  // the middle of a block, which interpolation leaves as it is
        EXPECT_NEAR(s.image.row(y)[x * 3 + c], kPartColors[i.label][c], 1)
            << "seed " << seed << " part " << i.label;
    }
  }
  for (int n : seen) EXPECT_GT(n, 4);  // of 40, those that the window has not cut
}

TEST(Rotate90, GivesAllThreeTurns) {
  AugmentFields fields;
  fields.values = {{"rotate90", {1}}};
  const Augmentation steps = make_augmentation(fields);
  Sample original;
  original.image = test::noise_image(5, 5, 1);
  std::set<std::vector<uint8_t>> turned;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng(seed);
    turned.insert(augment(original, steps, rng).image.rgb);
  }
  EXPECT_EQ(turned.size(), 3u);
  EXPECT_FALSE(turned.contains(original.image.rgb));
}

TEST(ScaleJitter, FitsTheImageIntoTheSize) {
  AugmentFields fields;
  fields.values = {
      {"scale_min", {0.5}}, {"scale_max", {0.5}}, {"aspect_jitter", {1}}, {"height", {40}}, {"width", {40}}};
  const Augmentation steps = make_augmentation(fields);
  Sample s;
  s.image = Image(30, 60);
  s.instances.push_back({0, {0, 0, 30, 30}, 900});
  Rng rng(1);
  s = augment(std::move(s), steps, rng);
  EXPECT_EQ(s.image.width, 20);
  EXPECT_EQ(s.image.height, 10);
  ASSERT_EQ(s.instances.size(), 1u);
  EXPECT_DOUBLE_EQ(s.instances[0].box.x2, 10);
  EXPECT_DOUBLE_EQ(s.instances[0].box.y2, 10);
}

// The better detection overlaps both objects. It must take the one that it fits best, not the last, or none
// is left for the other detection.
TEST(CocoMatch, TakesTheObjectThatFitsBest) {
  TestFolder dir;
  write_bytes(dir / "a.json",
              R"({"images":[{"id":1,"file_name":"a.png","width":40,"height":40}],"annotations":[
      {"id":1,"image_id":1,"category_id":1,"bbox":[0,0,10,10],"area":100},
      {"id":2,"image_id":1,"category_id":1,"bbox":[3,0,10,10],"area":100}],"categories":[{"id":1,"name":"a"}]})");
  write_bytes(dir / "d.json", R"([{"image_id":1,"category_id":1,"bbox":[0,0,10,10],"score":0.9},
      {"image_id":1,"category_id":1,"bbox":[4,0,10,10],"score":0.8}])");
  const CocoMetrics f =
      evaluate_coco(read_ground_truth({dir / "a.json", ""}), read_detections(dir / "d.json"), "d.json");
  EXPECT_NEAR(f.AP50, 1, 1e-12);  // sums of 101 ones
}

void put16(std::string& to, uint32_t value) {
  to += static_cast<char>(value & 0xFF);
  to += static_cast<char>(value >> 8 & 0xFF);
}
void put32(std::string& to, uint32_t value) {
  put16(to, value & 0xFFFF);
  put16(to, value >> 16);
}
std::vector<uint8_t> bytes_of_file(const std::string& text) { return {text.begin(), text.end()}; }

TEST(Bmp, PalettesOfOs2HaveThreeBytes) {
  std::string b = "BM";
  for (uint32_t value : {36u, 0u, 32u, 12u})
    put32(b, value);  // bytes, -, where the pixels are, the header's bytes
  for (uint32_t value : {2u, 1u, 1u, 1u}) put16(b, value);  // width, height, planes, bits
  b += std::string("\x0A\x14\x1E\x28\x32\x3C\x40\0\0\0",
                   10);  // two colours as blue, green, red; pixels 0 and 1
  const Image image = decode_image(bytes_of_file(b), "os2.bmp");
  EXPECT_EQ(image.rgb, (std::vector<uint8_t>{30, 20, 10, 60, 50, 40}));
}

TEST(Bmp, RunLengthsAreRefused) {
  std::string b = "BM";
  for (uint32_t value : {60u, 0u, 58u, 40u, 2u, 1u}) put32(b, value);
  put16(b, 1);
  put16(b, 8);
  for (uint32_t value : {1u, 0u, 0u, 0u, 1u, 0u}) put32(b, value);  // compression, ..., one colour
  b += std::string("\0\0\0\0\2\0\0\1", 8);
  EXPECT_EQ(input_error([&] { decode_image(bytes_of_file(b), "runs.bmp"); }),
            "runs.bmp: a BMP file with run lengths (RLE), expected an uncompressed one");
}

TEST(WebP, ChunksOfAnOddLengthArePadded) {
  std::string webp = read_bytes(std::string(SACCADE_SOURCE_DIR) + "/tests/golden/images/turned6.webp");
  const size_t exif = webp.find("EXIF");
  ASSERT_NE(exif, std::string::npos);
  std::string chunk = "abcd";
  put32(chunk, 3);
  webp.insert(exif, chunk + std::string("xyz\0", 4));
  std::string size;
  put32(size, static_cast<uint32_t>(webp.size() - 8));
  webp.replace(4, 4, size);
  EXPECT_EQ(inspect_image(bytes_of_file(webp), "odd.webp").orientation, 6);
}

TEST(Csv, GivesTheSizesOfImages) {
  TestFolder dir;
  write_bytes(
      dir / "a.csv",
      "filename,width,height,class,xmin,ymin,xmax,ymax\na.png,40,20,car,1,2,3,4\nb.png,4,8,car,1,2,3,4\n");
  const auto set = open_dataset({dir / "a.csv", ""});
  EXPECT_EQ(set->size_of(0), (ImageSize{20, 40}));
  EXPECT_EQ(set->size_of(1), (ImageSize{8, 4}));
}

}  // namespace
}  // namespace saccade
