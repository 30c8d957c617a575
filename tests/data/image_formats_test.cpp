// Tests the formats that images are read from: whole files give Pillow's pixels, and everything else is one
// line that names the file.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <sstream>

#include "core/files/file.h"
#include "data/images/codecs.h"
#include "data/images/orientation.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::noise_image;

const std::string kGoldenImages = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/";

struct GoldenImage {
  std::string path;
  int64_t height = 0, width = 0;
  uint64_t hash = 0;
};

// The images come from scripts/golden/data/make_images.py and make_jpeg.py.
std::vector<GoldenImage> golden_images() {
  std::vector<GoldenImage> cases;
  for (const char* folder : {"images/", "jpeg/"}) {
    std::ifstream file(kGoldenImages + folder + "cases.txt");
    for (std::string line; std::getline(file, line);) {
      if (line[0] == '#') continue;
      GoldenImage c;
      std::istringstream(line) >> c.path >> c.height >> c.width >> std::hex >> c.hash;
      c.path = kGoldenImages + folder + c.path;
      cases.push_back(c);
    }
  }
  return cases;
}

std::vector<uint8_t> bytes_of(const std::string& path) {
  const std::string text = read_bytes(path);
  return {text.begin(), text.end()};
}
std::vector<uint8_t> bytes_of_text(std::string_view text) { return {text.begin(), text.end()}; }

std::string decode_error(std::span<const uint8_t> bytes) {
  return input_error([&] { decode_image(bytes, "x.img"); });
}
void expect_refused(std::span<const uint8_t> bytes, const std::string& part, const std::string& what) {
  const std::string message = decode_error(bytes);
  EXPECT_TRUE(message.starts_with("x.img: ")) << what << ": " << message;
  EXPECT_NE(message.find(part), std::string::npos) << what << ": " << message;
}

TEST(ImageFormats, GivePillowsPixels) {
  const auto cases = golden_images();
  ASSERT_EQ(cases.size(), 69u);
  for (const GoldenImage& c : cases) {
    const Image image = read_image(c.path);
    EXPECT_EQ(image.height, c.height) << c.path;
    EXPECT_EQ(image.width, c.width) << c.path;
    EXPECT_EQ(hash_name({reinterpret_cast<const char*>(image.rgb.data()), image.rgb.size()}), c.hash)
        << c.path;
    const ImageInspection seen = inspect_image(bytes_of(c.path), c.path);
    EXPECT_EQ(seen.size, (ImageSize{c.height, c.width})) << c.path;
    check_image_file(c.path);
  }
  for (const char* name : {"turned6.webp", "turned6.tif"})
    EXPECT_EQ(inspect_image(bytes_of(kGoldenImages + "images/" + name), "").orientation, 6);
}

// These files hold all pixels (yolov5 #916, #2451, ultralytics #22917).
TEST(ImageFormats, AJpegMayLackItsEnd) {
  for (const char* name : {"420.jpg", "grey.jpg"}) {
    const auto whole = bytes_of(kGoldenImages + "jpeg/" + name);
    EXPECT_TRUE(decode_image(std::span(whole).first(whole.size() - 2), name) == decode_image(whole, name))
        << name;
    expect_refused(std::span(whole).first(whole.size() - 12), "cut off", name);
  }
}

TEST(ImageFormats, FurtherPicturesOfAFileAreSaid) {
  for (const auto& [name, has_more] : {std::pair{"frames.gif", true},
                                       {"pages.tif", true},
                                       {"palette.gif", false},
                                       {"rgb.tif", false},
                                       {"rgb.png", false}}) {
    const std::string path = kGoldenImages + "images/" + name;
    EXPECT_EQ(check_image_file(path).has_more, has_more) << name;
    EXPECT_EQ(inspect_image(bytes_of(path), "").has_more, has_more) << name;
  }
  // These files are longer than what is read at first.
  TestFolder dir;
  for (const char* name : {"frames.gif", "pages.tif"}) {
    write_bytes(dir / "long", read_bytes(kGoldenImages + "images/" + name) + std::string(50000, '\0'));
    EXPECT_TRUE(check_image_file(dir / "long").has_more) << name;
  }
}

// The files are longer than what is read at first.
TEST(ImageFormats, TheSizeIsReadFromAFewPieces) {
  TestFolder dir;
  for (const GoldenImage& c : golden_images()) {
    write_bytes(dir / "long", read_bytes(c.path) + std::string(5000, '\0'));
    EXPECT_EQ(image_size(dir / "long"), (ImageSize{c.height, c.width})) << c.path;
    EXPECT_EQ(image_size(c.path), (ImageSize{c.height, c.width})) << c.path;
  }
  write_bytes(dir / "cut", read_bytes(kGoldenImages + "jpeg/420.jpg").substr(0, 2) + std::string(5000, '\0'));
  EXPECT_NE(input_error([&] { image_size(dir / "cut"); }), "no error");
  write_bytes(dir / "none", std::string(5000, 'x'));
  EXPECT_NE(input_error([&] { image_size(dir / "none"); }).find("not an image in a supported format"),
            std::string::npos);
}

TEST(ImageFormats, OthersAreRefusedByContent) {
  TestFolder dir;
  const std::pair<const char*, std::string_view> others[] = {
      {"PGM", "P5 2 1 255\n\x07\xC8"},
      {"PNM", "P6 64 64 255\n"},
      {"GIF of an unknown version", "GIF90a\x01\x00\x01\x00\x80\x00\x00"},
      {"PSD", std::string_view("8BPS\0\1\0\0\0\0\0\0\0\3\0\0\0\1\0\0\0\1\0\x8\0\3", 26)},
      {"TGA", std::string_view("\0\0\2\0\0\0\0\0\0\0\0\0\x40\0\x40\0\x18\0", 18)},
      {"HDR", "#?RADIANCE\n"},
      {"TIFF of two byte orders", std::string_view("IM*\0\x08\0\0\0", 8)},
      {"fill byte before a JPEG", "\xFF\xFF\xD8\xFF\xC4"},
      {"HTML", "<!DOCTYPE html>"},
      {"text that begins as a BMP", "BMW and other car makers, a list"}};
  for (const auto& [what, text] : others)
    expect_refused(bytes_of_text(text),
                   "not an image in a supported format, expected JPEG, PNG, BMP, WebP, GIF or TIFF", what);
  expect_refused({}, "the file is empty", "empty");
  write_bytes(dir / "a.jpg", "P5 2 1 255\n\x07\xC8");
  EXPECT_NE(input_error([&] { check_image_file(dir / "a.jpg"); }).find("a.jpg: not an image"),
            std::string::npos);
  // The content counts, whatever the name says.
  fs::copy_file(kGoldenImages + "images/rgb.png", dir / "b.jpg");
  EXPECT_EQ(read_image(dir / "b.jpg").width, 21);
}

TEST(ImageFormats, CutFilesAreNeverTakenForWhole) {
  for (const GoldenImage& c : golden_images()) {
    auto whole = bytes_of(c.path);
    if (c.path.ends_with("pages.tif")) whole.resize(960);  // further pages are not looked at
    for (size_t n = 0; n < whole.size(); n += n < 100 ? 1 : 13) {
      const std::string message = decode_error(std::span(whole).first(n));
      EXPECT_TRUE(message.starts_with("x.img: ")) << c.path << " cut to " << n << ": " << message;
    }
    EXPECT_NE(decode_error(std::span(whole).first(whole.size() - 1)), "no error") << c.path;
  }
}

TEST(ImageFormats, EveryFlippedBitOfAPngIsNoticed) {
  for (const char* name : {"rgb.png", "palette.png", "turned6.png", "interlaced.png"}) {
    const auto whole = bytes_of(kGoldenImages + "images/" + name);
    for (size_t i = 0; i < whole.size(); ++i) {
      auto bad = whole;
      bad[i] ^= static_cast<uint8_t>(1 << i % 8);
      EXPECT_NE(decode_error(bad), "no error") << name << ", byte " << i;
    }
  }
}

// Returns a PNG of this size whose IDAT holds `data` unchanged.
std::vector<uint8_t> png_of(uint32_t width, uint32_t height, const std::vector<uint8_t>& data,
                            const std::vector<uint8_t>& behind = {}, const char* behind_name = "tEXt") {
  std::vector<uint8_t> out = bytes_of_text("\x89PNG\r\n\x1a\n");
  auto add32 = [&](uint32_t v) {
    for (int s = 24; s >= 0; s -= 8) out.push_back(static_cast<uint8_t>(v >> s));
  };
  auto add_chunk = [&](std::string_view name, const std::vector<uint8_t>& content) {
    add32(static_cast<uint32_t>(content.size()));
    const size_t begin = out.size();
    out.insert(out.end(), name.begin(), name.end());
    out.insert(out.end(), content.begin(), content.end());
    add32(static_cast<uint32_t>(crc32(0, out.data() + begin, static_cast<uInt>(out.size() - begin))));
  };
  std::vector<uint8_t> header;
  for (uint32_t v : {width, height})
    for (int s = 24; s >= 0; s -= 8) header.push_back(static_cast<uint8_t>(v >> s));
  for (int v : {8, 2, 0, 0, 0}) header.push_back(static_cast<uint8_t>(v));
  add_chunk("IHDR", header);
  add_chunk("IDAT", data);
  if (!behind.empty()) add_chunk(behind_name, behind);
  add_chunk("IEND", {});
  return out;
}

std::vector<uint8_t> deflated(size_t zeros) {
  std::vector<uint8_t> raw(zeros), out(compressBound(static_cast<uLong>(zeros)));
  uLongf size = static_cast<uLongf>(out.size());
  compress(out.data(), &size, raw.data(), static_cast<uLong>(zeros));
  out.resize(size);
  return out;
}

TEST(ImageFormats, MuchTextBehindThePixelsIsNoBomb) {
  const std::vector<uint8_t> pixels = deflated(2 * (1 + 2 * 3));
  std::vector<uint8_t> text(300'000, 'a');
  text[3] = 0;  // "aaa" is what the text is about
  const Image image = decode_image(png_of(2, 2, pixels, text), "text.png");
  EXPECT_EQ(image.rgb, std::vector<uint8_t>(12, 0));
}

TEST(ImageFormats, BombsAreRefusedBeforeTheyGrow) {
  const std::clock_t begin = std::clock();  // of the processor: the machine may be busy
  EXPECT_EQ(decode_error(png_of(8, 8, deflated(8 * 25))), "no error");
  expect_refused(png_of(8, 8, deflated(8 * 25 - 1)), "damaged image", "a byte too few");
  expect_refused(png_of(8, 8, deflated(8 * 25 + 1)), "damaged image", "a byte too many");
  expect_refused(png_of(1, 1, deflated(size_t{256} << 20)), "more data than its pixels need",
                 "inflates to 256 MB");
  expect_refused(png_of(13000, 13000, deflated(100)), "cannot hold 13000 x 13000 pixels", "PNG header");
  expect_refused(png_of(20000, 20000, deflated(100)), "x.img: ", "too many pixels");
  expect_refused(png_of(0, 5, deflated(100)), "0 x 5", "no pixels");
  auto jpeg = bytes_of(kGoldenImages + "jpeg/420.jpg");
  size_t frame = 2;
  while (jpeg[frame + 1] != 0xC0) frame += 2 + (size_t{jpeg[frame + 2]} << 8 | jpeg[frame + 3]);
  for (size_t side : {frame + 5, frame + 7}) jpeg[side] = 13000 >> 8, jpeg[side + 1] = 13000 & 255;
  expect_refused(jpeg, "cannot hold 13000 x 13000 pixels", "JPEG header");
  // The last scan of a progressive file is repeated.
  const auto progressive = bytes_of(kGoldenImages + "jpeg/progressive.jpg");
  size_t scan = progressive.size() - 2;
  while (progressive[scan] != 0xFF || progressive[scan + 1] != 0xDA) --scan;
  auto bomb = progressive;
  for (int i = 0; i < 200; ++i)
    bomb.insert(bomb.end() - 2, progressive.begin() + static_cast<ptrdiff_t>(scan), progressive.end() - 2);
  expect_refused(bomb, "more than 100 scans", "scans");
  auto bmp = bytes_of(kGoldenImages + "images/rgb.bmp");
  bmp[19] = bmp[23] = 50;  // 12,821 x 12,813
  expect_refused(bmp, "cut off", "BMP header");
  EXPECT_THROW(Image(60000, 60000), InputError);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
}

TEST(ImageFormats, ABmpColourOutsideOfThePaletteIsAnError) {
  auto bmp = bytes_of(kGoldenImages + "images/palette.bmp");
  bmp[46] = 3;  // colours used
  bmp[47] = 0;
  expect_refused(bmp, "but the palette has 3", "palette");
}

// Returns the bytes with those at this place changed.
std::vector<uint8_t> put(std::vector<uint8_t> bytes, size_t at, const std::vector<int>& values) {
  for (size_t i = 0; i < values.size(); ++i) bytes.at(at + i) = static_cast<uint8_t>(values[i]);
  return bytes;
}

TEST(ImageFormats, DamagedGifsAreRefused) {
  const auto gif =
      bytes_of(kGoldenImages + "images/rows.gif");  // 21 x 13, 4 colours, codes of 3 bits and more
  const size_t frame = 13 + 3 * 4, data = frame + 11;
  ASSERT_EQ(gif[frame], ',');
  expect_refused(put(gif, frame, {'?'}), "unknown block", "no frame");
  expect_refused(put(gif, frame, {';'}), "without a picture", "no frame");
  expect_refused(put(gif, data - 1, {12}), "codes of 12 bits", "codes");
  expect_refused(put(gif, frame + 5, {255, 255, 255, 255}), "65535 x 65535", "too many pixels");
  expect_refused(put(gif, frame + 5, {0, 64, 0, 8}), "cannot hold 16384 x 2048", "bomb");
  expect_refused(put(gif, frame + 7, {100}), "broken or missing GIF data", "fewer pixels than it says");
  expect_refused(put(gif, data + 1, {255}), "broken or missing GIF data", "codes that mean nothing yet");
  expect_refused(put(gif, 10, {0x80}), "damaged image", "a palette of two colours");
  // The screen may be smaller than the picture, or larger.
  EXPECT_EQ(decode_image(put(gif, 6, {0, 0, 0, 0}), "").width, 21);
  EXPECT_EQ(decode_image(put(gif, 6, {30, 0, 20, 0}), "").height, 20);
}

// Finds an entry of a classic little-endian file; Python wrote the entries in the order of their tags.
size_t tiff_entry(const std::vector<uint8_t>& tiff, int tag) {
  size_t at = tiff[4] + (size_t{tiff[5]} << 8) + 2;
  while (tiff.at(at) + (tiff.at(at + 1) << 8) != tag) at += 12;
  return at + 8;
}

TEST(ImageFormats, DamagedAndUnreadTiffsAreRefused) {
  const auto tiff = bytes_of(kGoldenImages + "images/rgb16.tif"),
             tiles = bytes_of(kGoldenImages + "images/tiles.tif"),
             grey = bytes_of(kGoldenImages + "images/grey16.tif");
  auto changed = [](const std::vector<uint8_t>& file, int tag, const std::vector<int>& value) {
    return put(file, tiff_entry(file, tag), value);
  };
  testing::internal::CaptureStderr();
  expect_refused(changed(tiff, 256, {255, 255}), "damaged image", "wide");
  expect_refused(changed(grey, 259, {0x6D, 0x88}), "compression 34925 (LZMA), expected none, CCITT",
                 "compression");
  expect_refused(changed(grey, 259, {6}), "compression 6 (JPEG of TIFF 6.0)", "old JPEG");
  expect_refused(changed(grey, 259, {5}), "damaged image", "LZW that is none");
  expect_refused(changed(grey, 259, {8}), "damaged image", "Deflate that is none");
  expect_refused(changed(grey, 259, {7}), "x.img: ", "JPEG that is none");
  expect_refused(changed(grey, 258, {32}), "32 bits per sample", "bits");
  expect_refused(changed(grey, 262, {8}), "colour space 8 (CIE L*a*b*)", "Lab");
  expect_refused(changed(grey, 262, {2}), "1 samples per pixel, expected 3", "RGB of one sample");
  expect_refused(changed(grey, 273, {255, 255, 255, 127}), "cut off", "strip");
  expect_refused(changed(grey, 273, {0, 0, 0, 0}), "without some of its pixels", "strip");
  expect_refused(changed(grey, 257, {0}), "x.img: ", "no rows");
  expect_refused(changed(tiles, 322, {0, 255}), "x.img: ", "large tiles");
  expect_refused(changed(tiles, 322, {0}), "x.img: ", "no tiles");
  expect_refused(put(tiff, 4, {255, 255, 255, 255}), "damaged image", "directory");
  expect_refused(put(tiff, 4, {4, 0, 0, 0}), "x.img: ", "a directory in the header");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "libtiff speaks";
  // The next page is this page itself, so it is read once.
  auto loop = grey;
  const size_t end = tiff_entry(grey, 284) + 4;
  loop = put(loop, end, {grey[4], grey[5]});
  EXPECT_TRUE(inspect_image(loop, "").has_more);
  EXPECT_EQ(decode_image(loop, "").width, 21);
}

// What libtiff's decoders warn of, as for a JPEG file.
TEST(ImageFormats, DamageInATiffThatIsReadOverIsTold) {
  auto damage_in = [](const std::vector<uint8_t>& bytes) {
    std::string damage;
    decode_image(bytes, "a.tif", nullptr, &damage);
    return damage;
  };
  for (const auto& [name, said] :
       {std::pair{"jpeg.tif", "damaged JPEG data ("}, {"fax.tif", "damaged CCITT data ("}}) {
    auto tiff = bytes_of(kGoldenImages + "images/" + name);
    EXPECT_EQ(damage_in(tiff), "") << name;
    auto value = [&](int tag) {
      const size_t at = tiff_entry(tiff, tag);
      return tiff[at] + (size_t{tiff[at + 1]} << 8);
    };
    const size_t begin = value(273), bytes = value(279);
    std::fill_n(tiff.begin() + static_cast<std::ptrdiff_t>(begin + bytes / 2), bytes / 3, uint8_t{0});
    EXPECT_TRUE(damage_in(tiff).starts_with(said)) << name << ": " << damage_in(tiff);
  }
}

TEST(ImageFormats, AnAnimatedPngHasMorePictures) {
  const auto pixels = deflated(2 * (1 + 3 * 3));
  for (const auto& [frames, has_more] : {std::pair{uint8_t{3}, true}, {uint8_t{1}, false}}) {
    const auto bytes = png_of(3, 2, pixels, {0, 0, 0, frames, 0, 0, 0, 0}, "acTL");
    EXPECT_EQ(inspect_image(bytes, "").has_more, has_more);
    TestFolder dir;
    write_bytes(dir / "a.png", std::string(bytes.begin(), bytes.end()));
    EXPECT_EQ(check_image_file(dir / "a.png").has_more, has_more);
    EXPECT_EQ(decode_image(bytes, "").width, 3);
  }
}

TEST(ImageFormats, LargeFilesAreCheckedByTheirEnds) {
  TestFolder dir;
  const auto png = encode_png(noise_image(150, 150, 1));
  ASSERT_GT(png.size(), size_t{40000});
  auto check = [&](std::vector<uint8_t> bytes) {
    write_bytes(dir / "a.png", std::string(bytes.begin(), bytes.end()));
    return input_error([&] { check_image_file(dir / "a.png"); });
  };
  EXPECT_EQ(check(png), "no error");
  auto changed = png;
  changed[20000] ^= 1;
  EXPECT_EQ(check(changed), "no error");  // only decoding shows it
  EXPECT_NE(decode_error(changed), "no error");
  EXPECT_NE(check({png.begin(), png.end() - 1}).find("cut off"), std::string::npos);
  auto more = png;
  more.insert(more.end(), 100, 7);  // as some cameras do; the whole file is read then
  EXPECT_EQ(check(more), "no error");
  auto wide = png;
  wide[18] = 100;  // 25,750 x 150: the header has a checksum of its own
  EXPECT_NE(check(wide).find("damaged image (a PNG file whose header has a wrong checksum)"),
            std::string::npos)
      << check(wide);
}

// Returns the place of a JPEG's Exif segment: its marker, and what comes after it.
std::pair<std::ptrdiff_t, std::ptrdiff_t> exif_segment(const std::vector<uint8_t>& jpeg) {
  const std::string_view text(reinterpret_cast<const char*>(jpeg.data()), jpeg.size());
  const size_t exif = text.find("Exif");  // after a marker and the segment's length
  if (exif == text.npos) return {};
  const size_t end = exif - 2 + jpeg[exif - 2] * size_t{256} + jpeg[exif - 1];
  return {static_cast<std::ptrdiff_t>(exif) - 4, static_cast<std::ptrdiff_t>(end)};
}

TEST(ImageFormats, OfTwoOrientationsTheFirstCounts) {
  auto bytes = bytes_of(kGoldenImages + "images/turned6.jpg");
  const auto other = bytes_of(kGoldenImages + "images/turned8.jpg");
  const auto [begin, end] = exif_segment(other);
  ASSERT_GT(end, 0);
  bytes.insert(bytes.begin() + exif_segment(bytes).second, other.begin() + begin, other.begin() + end);
  EXPECT_EQ(inspect_image(bytes, "").orientation, 6);
}

// The reader of sizes and the decoder of pixels look in the same places: before a JPEG's scan, as every
// viewer does, and in the first 64 KB of a chunk.
TEST(ImageFormats, OrientationsThatNobodyLooksForTurnNothing) {
  TestFolder dir;
  const auto expect_upright = [&](const std::vector<uint8_t>& bytes, const std::string& name) {
    write_bytes(dir / name, std::string(bytes.begin(), bytes.end()));
    EXPECT_EQ(inspect_image(bytes, name).orientation, 1) << name;
    EXPECT_EQ(check_image_file(dir / name).orientation, 1) << name;
    EXPECT_EQ(image_size(dir / name), inspect_image(bytes, name).size) << name;
    const Image image = decode_image(bytes, name);
    EXPECT_EQ((ImageSize{image.height, image.width}), image_size(dir / name)) << name;
  };
  const auto turned = bytes_of(kGoldenImages + "images/turned6.jpg");
  const auto [begin, end] = exif_segment(turned);
  ASSERT_GT(end, 0);
  const std::vector<uint8_t> exif(turned.begin() + begin, turned.begin() + end);
  auto behind = turned;
  behind.erase(behind.begin() + begin, behind.begin() + end);
  behind.insert(behind.end() - 2, exif.begin(), exif.end());
  expect_upright(behind, "behind.jpg");
  // The same behind a comment that makes the file longer than what is read at once.
  std::vector<uint8_t> comment(2 + 60000, 'x');
  comment[0] = 0xFF, comment[1] = 0xFE, comment[2] = 60000 / 256, comment[3] = 60000 % 256;
  behind.insert(behind.begin() + 2, comment.begin(), comment.end());
  expect_upright(behind, "large.jpg");
  // A PNG's chunk whose directory lies far behind its header.
  for (const size_t directory : {size_t{0x8000}, size_t{0x18000}}) {
    std::vector<uint8_t> far = bytes_of_text(std::string("MM\0*\0\0\x80\0", 8));
    far[5] = static_cast<uint8_t>(directory >> 16);
    far.resize(directory);
    const auto tag = bytes_of_text(std::string("\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0", 18));
    far.insert(far.end(), tag.begin(), tag.end());
    const auto bytes = png_of(3, 2, deflated(2 * (1 + 3 * 3)), far, "eXIf");
    if (directory < kMaxExifBytes)
      EXPECT_EQ(inspect_image(bytes, "").orientation, 6);
    else
      expect_upright(bytes, "far.png");
  }
}

// A row of pixels is a row of blocks.
TEST(ImageFormats, AJpegOfOneRowCannotHoldMoreThanItsBytes) {
  auto bytes = bytes_of(kGoldenImages + "jpeg/grey.jpg");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t frame = text.find("\xFF\xC0");
  ASSERT_NE(frame, text.npos);
  for (size_t i = 0; i < 4; ++i) bytes[frame + 5 + i] = std::array<uint8_t, 4>{0, 1, 0xFF, 0xFF}[i];
  expect_refused(bytes, "cannot hold 65535 x 1 pixels", "8,192 blocks in 586 bytes");
}

// As a camera writes it: the orientation, then a preview and a comment that fill the head, then the picture.
TEST(ImageFormats, TheOrientationOfALargeFileIsRead) {
  TestFolder dir;
  auto bytes = bytes_of(kGoldenImages + "images/turned6.jpg");
  const std::ptrdiff_t end = exif_segment(bytes).second;
  ASSERT_GT(end, 0);
  std::vector<uint8_t> comment(2 + 60000, 'x');
  comment[0] = 0xFF, comment[1] = 0xFE, comment[2] = 60000 / 256, comment[3] = 60000 % 256;
  bytes.insert(bytes.begin() + end, comment.begin(), comment.end());
  write_bytes(dir / "a.jpg", std::string(bytes.begin(), bytes.end()));
  EXPECT_EQ(check_image_file(dir / "a.jpg").orientation, 6);
  EXPECT_EQ(image_size(dir / "a.jpg"), check_image_file(dir / "a.jpg").size);
  EXPECT_EQ(image_size(dir / "a.jpg"), inspect_image(bytes, "").size);
}

TEST(ImageFormats, PiecesOfAFileReachToItsLastByte) {
  TestFolder dir;
  write_bytes(dir / "a", "0123456789");
  const InputFile file(dir / "a", kImageFile);
  FilePieces pieces(file, {});
  for (const auto& [at, expected] : {std::pair{0, "012"}, {7, "789"}, {8, "89"}, {9, "9"}, {10, ""}}) {
    const Bytes piece = pieces.read(static_cast<uint64_t>(at), 3);
    EXPECT_EQ(std::string(piece.begin(), piece.end()), expected) << at;
  }
}

// Cameras write their names before it.
TEST(ImageFormats, TheOrientationMayStandBehindOtherTags) {
  std::vector<uint8_t> little{'I', 'I', '*', 0, 8, 0, 0, 0, 3, 0}, big{'M', 'M', 0, '*', 0, 0, 0, 8, 0, 3};
  for (const std::array<uint8_t, 3>& entry :
       {std::array<uint8_t, 3>{0x0F, 2, 9}, {0x10, 2, 9}, {0x12, 3, 6}}) {
    const auto [tag, type, value] = entry;
    little.insert(little.end(), {tag, 1, type, 0, 1, 0, 0, 0, value, 0, 0, 0});
    big.insert(big.end(), {1, tag, 0, type, 0, 0, 0, 1, 0, value, 0, 0});
  }
  EXPECT_EQ(exif_orientation(little), 6);
  EXPECT_EQ(exif_orientation(big), 6);
  EXPECT_EQ(exif_orientation(std::span(big).first(big.size() - 1)), 1) << "cut off";
}

// The orientation turns the stored picture into the one to be shown.
TEST(Orientation, TurnsAndSizes) {
  Image image(2, 3);
  for (size_t i = 0; i < 6; ++i) image.rgb[3 * i] = static_cast<uint8_t>(i);  // 0 1 2 / 3 4 5
  const std::vector<std::vector<int>> shown = {{0, 1, 2, 3, 4, 5}, {2, 1, 0, 5, 4, 3}, {5, 4, 3, 2, 1, 0},
                                               {3, 4, 5, 0, 1, 2}, {0, 3, 1, 4, 2, 5}, {3, 0, 4, 1, 5, 2},
                                               {5, 2, 4, 1, 3, 0}, {2, 5, 1, 4, 0, 3}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image out = turned(image, orientation);
    EXPECT_EQ(out.height, orientation < 5 ? 2 : 3);
    EXPECT_EQ((ImageSize{out.height, out.width}), turned(ImageSize{2, 3}, orientation));
    for (size_t i = 0; i < 6; ++i)
      EXPECT_EQ(out.rgb[3 * i], shown[static_cast<size_t>(orientation - 1)][i]) << orientation << ", " << i;
  }
}

TEST(Orientation, NonsenseIsNotTurned) {
  const std::string_view good("MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0", 26);
  EXPECT_EQ(exif_orientation(bytes_of_text(good)), 6);
  EXPECT_EQ(exif_orientation(bytes_of_text("Exif" + std::string(2, '\0') + std::string(good))), 6);
  for (size_t n = 0; n < 22; ++n) EXPECT_EQ(exif_orientation(bytes_of_text(good.substr(0, n))), 1) << n;
  for (auto [at, value] : {std::pair{19, 9}, {19, 0}, {13, 2}, {7, 200}, {4, 255}, {8, 255}}) {
    auto bad = bytes_of_text(good);
    bad[static_cast<size_t>(at)] = static_cast<uint8_t>(value);
    const int orientation = exif_orientation(bad);
    EXPECT_TRUE(orientation == 1 || orientation == 6) << at;
  }
}

// Seeded damage to every kind of file: an error that names it, or a picture of a sane size.
TEST(ImageFormats, DamagedFilesAreErrorsOrPictures) {
  const auto cases = golden_images();
  Rng rng(3);
  auto pick = [&](size_t n) { return static_cast<size_t>(rng.below(static_cast<int64_t>(n))); };
  int errors = 0, pictures = 0;
  for (const GoldenImage& c : cases) {
    const auto whole = bytes_of(c.path);
    for (int round = 0; round < 80; ++round) {
      auto bytes = whole;
      for (size_t k = pick(3) + 1; k > 0; --k) {
        const size_t at = pick(round % 2 ? bytes.size() : std::min<size_t>(bytes.size(), 80));
        switch (pick(5)) {
          case 0:
            bytes[at] ^= static_cast<uint8_t>(1 << pick(8));
            break;
          case 1:
            bytes[at] = static_cast<uint8_t>(pick(2) ? 0xFF : 0x00);
            break;
          case 2:
            bytes[at] = static_cast<uint8_t>(rng.next());
            break;
          case 3:
            bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(at));
            break;
          default:
            bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), bytes[pick(bytes.size())]);
        }
      }
      try {
        const Image image = decode_image(bytes, "damaged");
        EXPECT_EQ(image.rgb.size(), static_cast<size_t>(image.height * image.width * 3));
        ++pictures;
      } catch (const InputError& e) {
        EXPECT_TRUE(std::string(e.what()).starts_with("damaged: ")) << e.what();
        ++errors;
      }
    }
  }
  EXPECT_GT(errors, 500);
  EXPECT_GT(pictures, 300);
}

}  // namespace
}  // namespace saccade
