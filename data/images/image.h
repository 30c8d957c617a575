// Pictures in memory: 8-bit RGB, rows top to bottom.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types/image_size.h"

namespace saccade {

// Throws InputError above kMaxImagePixels, with what it is of ("--height and --width: an image").
void check_image_size(int64_t height, int64_t width, const char* what = "an image");

struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]

  Image() = default;
  // Black. Throws InputError for a size that check_image_size refuses, before any memory is taken.
  Image(int64_t h, int64_t w);
  uint8_t* row(int64_t y) { return rgb.data() + y * width * 3; }
  const uint8_t* row(int64_t y) const { return rgb.data() + y * width * 3; }
  bool operator==(const Image&) const = default;
};

// The part of this size from there on, which is in the image.
Image cut_out(const Image& image, int64_t y, int64_t x, ImageSize size);

// JPEG (with Pillow's pixels), PNG, BMP, WebP, GIF and TIFF, told apart by their content. Grey, palettes, 16
// bits and CMYK become 8-bit RGB, alpha is dropped, of several pictures in a file the first is taken, and it
// is turned as its EXIF orientation says: what is read is what viewers show. Throws InputError naming the
// file when it is missing, damaged, cut off or too large, or another thing than such an image. `has_more`
// gets whether it holds further pictures.
Image read_image(const std::string& path, bool* has_more = nullptr);
Image decode_image(std::span<const uint8_t> bytes, const std::string& name, bool* has_more = nullptr);
// The picture for a look at it: within `side` pixels, or as it is where it is smaller; of a large JPEG only
// as much is decoded as that needs, so pixels are about, not exactly, those of the resized image.
Image decode_small_image(std::span<const uint8_t> bytes, const std::string& name, int64_t side);

struct ImageInspection {
  ImageSize size;         // as it is shown
  int orientation = 1;    // EXIF's; above 4 width and height are swapped in the file
  bool has_more = false;  // of a GIF, further frames; of a TIFF, further pages
};
// The same errors, but for damage that only decoding shows.
ImageInspection inspect_image(std::span<const uint8_t> bytes, const std::string& name);
// The same again from the file's first and last bytes where they suffice, as they do for most: cheap enough
// for every image of a data set. Throws InputError.
ImageInspection check_image_file(const std::string& path);

// The size as it is shown, from a few KB of the file: of damage elsewhere it says nothing. Throws InputError.
ImageSize image_size(const std::string& path);

inline constexpr const char* kImageFormats = "JPEG, PNG, BMP, WebP, GIF and TIFF";
// ".jpg" of "a/B.JPG"; "" when there is none.
std::string lower_extension(const std::string& path);
// What files are called that read_image may be able to read: ".jpg", ...; folders are searched for these,
// in capitals, too.
std::span<const std::string_view> image_extensions();
bool has_image_extension(const std::string& path);
// Whether it is that of an image in another format.
bool has_foreign_image_extension(const std::string& path);

std::vector<uint8_t> encode_png(const Image& image);
std::vector<uint8_t> encode_jpeg(const Image& image, int quality);
// Written to a temporary file in the same folder, then renamed. Throws InputError when the file cannot be
// written.
void write_png(const Image& image, const std::string& path);

}  // namespace saccade
