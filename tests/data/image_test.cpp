#include "data/images/image.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/files/file.h"
#include "core/runtime/tasks.h"
#include "core/tensor/philox.h"
#include "data/images/codecs.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

TEST(Image, PngKeepsEveryByte) {
  TestFolder dir;
  for (auto [h, w] : {std::pair<int64_t, int64_t>{1, 1}, {7, 300}, {64, 5}}) {
    Image image = test::noise_image(h, w, 5);
    write_png(image, dir / "a.png");
    EXPECT_TRUE(read_image(dir / "a.png") == image);
    check_image_file(dir / "a.png");
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}),
            1);  // no temporary file is left
}

TEST(Image, EveryErrorNamesTheFile) {
  TestFolder dir;
  auto message = [&](const std::string& name) { return input_error([&] { read_image(dir / name); }); };
  EXPECT_NE(message("none.png").find("none.png: cannot read"), std::string::npos);
  write_bytes(dir / "empty.png", "");
  EXPECT_NE(message("empty.png").find("empty.png: the file is empty"), std::string::npos);
  write_bytes(dir / "junk.jpg", "\xFF\xD8 junk");
  EXPECT_NE(message("junk.jpg").find("junk.jpg"), std::string::npos);
  std::filesystem::create_directory(dir / "folder");
  EXPECT_NE(message("folder").find("is a folder"), std::string::npos);
  // The header asks for 400 gigabytes.
  auto png = encode_png(Image(2, 2));
  png[17] = png[21] = 5;
  EXPECT_NE(input_error([&] { decode_image(png, "huge.png"); }).find("huge.png"), std::string::npos);
  EXPECT_NE(input_error([&] { write_png(Image(2, 2), dir / "no/such/folder.png"); }).find("cannot write"),
            std::string::npos);
}

TEST(Image, ACutFileIsNeverTakenForWhole) {
  auto png = encode_png(test::noise_image(20, 20, 1));
  for (size_t n = 0; n + 12 < png.size(); n += 7) {  // the last chunk, IEND, holds no pixels
    EXPECT_NE(input_error([&] { decode_image(std::span(png).first(n), "cut.png"); }), "no error") << n;
  }
  std::string photo = std::string(SACCADE_SOURCE_DIR) + "/../shared/data/bccd/images/BloodImage_00000.jpg";
  if (!std::filesystem::exists(photo)) GTEST_SKIP() << "the JPEG part needs " << photo;
  auto jpeg = read_file(photo, kImageFile);
  Image whole = decode_image(jpeg, "photo.jpg");
  EXPECT_EQ(whole.width, 640);
  for (size_t n : {jpeg.size() / 4, jpeg.size() / 2, jpeg.size() - 40, jpeg.size() - 3, jpeg.size() - 1}) {
    EXPECT_NE(input_error([&] { decode_image(std::span(jpeg).first(n), "cut.jpg"); }).find("cut.jpg"),
              std::string::npos);
  }
  // Without the last marker all pixels are there (yolov5 #916, #2451).
  EXPECT_TRUE(decode_image(std::span(jpeg).first(jpeg.size() - 2), "cut.jpg") == whole);
}

// Made by scripts/golden/data/make_jpeg.py.
const std::string kJpegs = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/jpeg/";

uint64_t hash_of(const Image& image) {
  return hash_name({reinterpret_cast<const char*>(image.rgb.data()), image.rgb.size()});
}

struct JpegCase {
  std::string name;
  int64_t height = 0, width = 0;
  uint64_t hash = 0;
};

std::vector<JpegCase> jpeg_cases() {
  std::vector<JpegCase> cases;
  std::ifstream file(kJpegs + "cases.txt");
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#') continue;
    JpegCase c;
    std::istringstream(line) >> c.name >> c.height >> c.width >> std::hex >> c.hash;
    cases.push_back(c);
  }
  return cases;
}

TEST(Jpeg, GivesPillowsPixels) {
  auto cases = jpeg_cases();
  ASSERT_EQ(cases.size(), 8U);
  for (const JpegCase& c : cases) {
    Image image = read_image(kJpegs + c.name);
    EXPECT_EQ(image.height, c.height) << c.name;
    EXPECT_EQ(image.width, c.width) << c.name;
    EXPECT_EQ(hash_of(image), c.hash) << c.name;
  }
}

TEST(Jpeg, GivesPillowsPixelsForPhotos) {
  std::ifstream file(kJpegs + "photos.txt");
  std::string line, folder;
  std::getline(file, line);
  size_t count = 0;
  uint64_t hash = 0;
  file >> folder >> count >> std::hex >> hash;
  fs::path photos = fs::path(SACCADE_SOURCE_DIR) / "../shared/data" / folder;
  if (!fs::exists(photos)) GTEST_SKIP() << "needs " << photos;
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(photos)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  ASSERT_EQ(paths.size(), count);
  std::vector<std::string> hashes(paths.size());
  run_tasks(static_cast<int64_t>(paths.size()), 0, [&](int64_t i) {
    auto at = static_cast<size_t>(i);
    hashes[at] = fmt::format("{:016x}", hash_of(read_image(paths[at])));
  });
  EXPECT_EQ(hash_name(fmt::format("{}", fmt::join(hashes, ""))), hash);
}

// What libjpeg warns of, and viewers show in spite of it.
TEST(Jpeg, DamageThatIsReadOverIsTold) {
  const Image noise = test::noise_image(120, 150, 3);
  const std::vector<uint8_t> whole = encode_jpeg(noise, 90);
  using Bytes = std::vector<uint8_t>;
  const auto part = [](const Bytes& b, size_t begin, size_t end) {
    return Bytes(b.begin() + static_cast<std::ptrdiff_t>(begin),
                 b.begin() + static_cast<std::ptrdiff_t>(end));
  };
  const auto damage_in = [](const Bytes& b, Image* image = nullptr) {
    std::string damage;
    Image read = decode_image(b, "a.jpg", nullptr, &damage);
    std::string small;
    decode_small_image(b, "a.jpg", 16, &small);
    EXPECT_EQ(small.empty(), damage.empty()) << small << damage;
    if (image != nullptr) *image = std::move(read);
    return damage;
  };
  const Image decoded = decode_image(whole, "a.jpg");
  const size_t n = whole.size();
  // Nothing is wrong with trailing bytes, nor if only the last marker is missing.
  Bytes trailing = whole;
  trailing.insert(trailing.end(), 300, 'x');
  for (const Bytes& b : {whole, trailing, part(whole, 0, n - 2)}) {
    Image image;
    EXPECT_EQ(damage_in(b, &image), "");
    EXPECT_EQ(image, decoded);
  }
  for (const JpegCase& c : jpeg_cases())
    EXPECT_EQ(damage_in(read_file(kJpegs + c.name, kImageFile)), "") << c.name;
  Bytes cut = part(whole, 0, n / 3);
  cut.insert(cut.end(), whole.begin() + static_cast<std::ptrdiff_t>(n / 2), whole.end());
  Bytes half = part(whole, 0, n / 2);
  half.insert(half.end(), {0xFF, 0xD9});
  for (const Bytes& b : {cut, half})
    EXPECT_EQ(damage_in(b), "damaged JPEG data (some of it is missing), some pixels may be wrong");
  // Other bytes may also look like a segment that cannot be read.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Bytes b = whole;
    Rng rng(seed);
    for (size_t i = n / 2; i < n / 2 + 2000; ++i) b[i] = static_cast<uint8_t>(rng.next());
    std::string damage;
    const std::string error = input_error([&] { damage = damage_in(b); });
    EXPECT_TRUE(!damage.empty() || error.starts_with("a.jpg: damaged image")) << seed << ": " << error;
    EXPECT_EQ(error.find("cut off"), std::string::npos) << error;
  }
}

// libjpeg's messages, jerror.h.
TEST(Image, DamageOfAJpegIsNamedByItsKind) {
  const std::string kind = "Corrupt JPEG data: ";
  EXPECT_STREQ(jpeg_damage(kind + "premature end of data segment"), "some of it is missing");
  EXPECT_STREQ(jpeg_damage(kind + "bad Huffman code"), "some of it cannot be decoded");
  EXPECT_STREQ(jpeg_damage(kind + "bad arithmetic code"), "some of it cannot be decoded");
  EXPECT_STREQ(jpeg_damage(kind + "found marker 0xd3 instead of RST1"), "its parts are not in their order");
  EXPECT_STREQ(jpeg_damage(kind + "9 extraneous bytes before marker 0xd9"), "there is too much of it");
  EXPECT_STREQ(jpeg_damage("Inconsistent progression sequence for component 0 coefficient 1"),
               "its scans do not fit together");
  for (const std::string& harmless :
       {kind + "8 extraneous bytes before marker 0xd9", std::string("Unknown Adobe color transform code 7")})
    EXPECT_EQ(jpeg_damage(harmless), nullptr) << harmless;
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
