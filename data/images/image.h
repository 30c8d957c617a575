// Pictures in memory: 8-bit RGB, rows top to bottom.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types/image_size.h"

namespace saccade {

// Throws InputError above kMaxImagePixels; `what` names the image ("--height and --width: an image").
void check_image_size(int64_t height, int64_t width, const char* what = "an image");

struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]

  Image() = default;
  // A black image. Throws InputError for a size that check_image_size refuses, before allocating memory.
  Image(int64_t h, int64_t w);
  uint8_t* row(int64_t y) { return rgb.data() + y * width * 3; }
  const uint8_t* row(int64_t y) const { return rgb.data() + y * width * 3; }
  bool operator==(const Image&) const = default;
};

// Returns the part of this size from there on, which must be inside the image.
Image cut_out(const Image& image, int64_t y, int64_t x, ImageSize size);

// Reads JPEG (with Pillow's pixels), PNG, BMP, WebP, GIF and TIFF, recognised by their content. Grey,
// palettes, 16 bits and CMYK become 8-bit RGB, alpha is dropped, and the first of several pictures in a file
// is used. The image is rotated by its EXIF orientation, so the result is what viewers show. Throws
// InputError naming the file if it is missing, damaged, cut off, too large, or no such image. `has_more`
// tells whether the file contains further pictures. `damage` tells what is damaged in JPEG data, also of
// a TIFF, and in a TIFF's fax that could be read in spite of it, with wrong pixels ("damaged JPEG data (...),
// ..."); it stays if nothing is.
Image read_image(const std::string& path, bool* has_more = nullptr, std::string* damage = nullptr);
Image decode_image(std::span<const uint8_t> bytes, const std::string& name, bool* has_more = nullptr,
                   std::string* damage = nullptr);
// Returns the picture for viewing: at most `side` pixels a side, or unchanged if smaller. A large JPEG is
// only decoded as far as needed, so pixels are only approximately those of the resized image.
Image decode_small_image(std::span<const uint8_t> bytes, const std::string& name, int64_t side,
                         std::string* damage = nullptr);

struct ImageInspection {
  ImageSize size;         // as shown
  int orientation = 1;    // EXIF's; above 4, width and height are swapped in the file
  bool has_more = false;  // for a GIF or a PNG, further frames; for a TIFF, further pages
};
// Throws the same errors, except for damage that only decoding shows.
ImageInspection inspect_image(std::span<const uint8_t> bytes, const std::string& name);
// The same from the file's first and last bytes if they suffice, as they usually do: cheap enough for every
// image of a data set. Throws InputError.
ImageInspection check_image_file(const std::string& path);

// Returns the size as shown, from a few KB of the file; damage elsewhere goes unnoticed. Throws InputError.
ImageSize image_size(const std::string& path);

inline constexpr const char* kImageFormats = "JPEG, PNG, BMP, WebP, GIF or TIFF";
// Returns ".jpg" for "a/B.JPG"; "" if there is none.
std::string lower_extension(const std::string& path);
// The extensions of files that read_image may be able to read: ".jpg", ...; folders are searched for these,
// also in capitals.
std::span<const std::string_view> image_extensions();
bool has_image_extension(const std::string& path);
// Returns whether the extension is that of an image in another format.
bool has_foreign_image_extension(const std::string& path);

std::vector<uint8_t> encode_png(const Image& image);
std::vector<uint8_t> encode_jpeg(const Image& image, int quality);
// Writes to a temporary file in the same folder, then renames it. Throws InputError if the file cannot be
// written.
void write_png(const Image& image, const std::string& path);

}  // namespace saccade
