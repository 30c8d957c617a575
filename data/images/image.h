// Pictures in memory: 8-bit RGB, rows top to bottom.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/types/image_size.h"

namespace saccade {

struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]

  Image() = default;
  Image(int64_t h, int64_t w) : height(h), width(w), rgb(static_cast<size_t>(h * w * 3)) {}
  uint8_t* row(int64_t y) { return rgb.data() + y * width * 3; }
  const uint8_t* row(int64_t y) const { return rgb.data() + y * width * 3; }
  bool operator==(const Image&) const = default;
};

// Refused above this many pixels (Pillow's limit against decompression bombs).
inline constexpr int64_t kMaxImagePixels = 178'956'970;

// JPEG (through libjpeg-turbo where the program was built with it: data/images/jpeg.h), PNG, BMP, GIF (first frame),
// PSD, TGA, PNM. Grey becomes RGB, alpha is dropped, and EXIF orientation is ignored, as in the official DETR
// code: boxes refer to the stored pixels. Throws InputError naming the file when it is missing, damaged,
// truncated or too large.
Image read_image(const std::string& path);
Image decode_image(std::span<const uint8_t> bytes, const std::string& name);
// The same through stb_image, which every other format and a build without libjpeg-turbo takes.
Image decode_with_stb(std::span<const uint8_t> bytes, const std::string& name);
// The size without decoding the pixels; the same errors for what can be seen in the header.
ImageSize read_image_size(const std::string& path);

// ".jpg" of "a/B.JPG"; "" when there is none.
std::string lower_extension(const std::string& path);
// Whether read_image may be able to read a file of this name.
bool has_image_extension(const std::string& path);

std::vector<uint8_t> encode_png(const Image& image);
// Written to a temporary file in the same folder, then renamed. Throws InputError when the file cannot be
// written.
void write_png(const Image& image, const std::string& path);

}  // namespace saccade
