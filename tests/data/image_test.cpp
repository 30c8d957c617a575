#include "data/image.h"

#include <gtest/gtest.h>

#include "data/file.h"
#include "data/tasks.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

using test::input_error;
using test::TempDir;

TEST(Image, PngKeepsEveryByte) {
  TempDir dir;
  for (auto [h, w] : {std::pair<int64_t, int64_t>{1, 1}, {7, 300}, {64, 5}}) {
    Image image = test::noise_image(h, w, 5);
    write_png(image, dir / "a.png");
    EXPECT_TRUE(read_image(dir / "a.png") == image);
    ImageSize size = read_image_size(dir / "a.png");
    EXPECT_EQ(size.height, h);
    EXPECT_EQ(size.width, w);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.str()), {}),
            1);  // no temporary file is left
}

TEST(Image, GreyBecomesRgb) {
  TempDir dir;
  test::write_text(dir / "a.pgm", std::string("P5 2 1 255\n\x07\xC8", 13));
  EXPECT_EQ(read_image(dir / "a.pgm").rgb, (std::vector<uint8_t>{7, 7, 7, 200, 200, 200}));
}

TEST(Image, EveryErrorNamesTheFile) {
  TempDir dir;
  auto message = [&](const std::string& name) { return input_error([&] { read_image(dir / name); }); };
  EXPECT_NE(message("none.png").find("none.png: cannot read"), std::string::npos);
  test::write_text(dir / "empty.png", "");
  EXPECT_NE(message("empty.png").find("empty.png: the file is empty"), std::string::npos);
  test::write_text(dir / "junk.jpg", "\xFF\xD8 junk");
  EXPECT_NE(message("junk.jpg").find("junk.jpg"), std::string::npos);
  std::filesystem::create_directory(dir / "folder");
  EXPECT_NE(message("folder").find("is a folder"), std::string::npos);
  // A header that asks for 400 gigabytes.
  auto png = encode_png(Image(2, 2));
  png[17] = png[21] = 5;
  EXPECT_NE(input_error([&] { decode_image(png, "huge.png"); }).find("huge.png"), std::string::npos);
  EXPECT_NE(input_error([&] { write_png(Image(2, 2), dir / "no/such/folder.png"); }).find("cannot write"),
            std::string::npos);
}

TEST(Image, ACutFileIsNeverTakenForWhole) {
  auto png = encode_png(test::noise_image(20, 20, 1));
  for (size_t n = 0; n + 12 < png.size(); n += 7) {  // the last chunk, IEND, holds no pixels
    EXPECT_NE(input_error([&] { decode_image(std::span(png).first(n), "cut.png"); }), "") << n;
  }
  std::string photo = std::string(SACCADE_SOURCE_DIR) + "/../shared/data/bccd/images/BloodImage_00000.jpg";
  if (!std::filesystem::exists(photo)) GTEST_SKIP() << "the JPEG part needs " << photo;
  auto jpeg = read_file(photo);
  Image whole = decode_image(jpeg, "photo.jpg");
  EXPECT_EQ(whole.width, 640);
  for (size_t n : {jpeg.size() / 4, jpeg.size() / 2, jpeg.size() - 40, jpeg.size() - 2}) {
    EXPECT_NE(input_error([&] { decode_image(std::span(jpeg).first(n), "cut.jpg"); }).find("cut.jpg"),
              std::string::npos);
  }
}

TEST(Tasks, ReportTheFirstFailureAndRunOnAnyCount) {
  for (int threads : {1, 4}) {
    std::atomic<int64_t> sum{0};
    run_tasks(100, threads, [&](int64_t i) { sum += i; });
    EXPECT_EQ(sum, 4950);
    EXPECT_THROW(run_tasks(10, threads, [](int64_t i) { SACCADE_CHECK(i != 3, "three"); }), Error);
    run_tasks(0, threads, [](int64_t) { FAIL(); });
  }
}

}  // namespace
}  // namespace saccade
