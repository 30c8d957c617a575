// The pixels of a PNG file before conversion to colours: numbers, as in label maps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/types/image_size.h"

namespace saccade {

struct StoredPixels {
  ImageSize size;
  int bits = 8;                   // of a number in the file: 1, 2, 4, 8 or 16
  std::vector<uint16_t> values;   // [height, width]: grey values or palette indices; empty for a colour image
  std::vector<uint32_t> colors;   // [height, width] of a colour image, 0xRRGGBB; else empty
  std::vector<uint32_t> palette;  // 0xRRGGBB; empty if the numbers are grey values
};

// Drops alpha. Throws InputError naming the file for what read_image refuses, for images that are no PNG, and
// for those that an EXIF orientation rotates: it is unknown whether their image is rotated likewise.
StoredPixels read_stored_pixels(const std::string& path);

// Reads the size from the file's first and last bytes if they suffice. Throws the same errors, except for
// damage that only decoding shows.
ImageSize check_stored_pixels(const std::string& path);

// Makes a PNG file of numbers: of 8 bits with this palette, which has at most 256 colours and at least one
// for each number; without a palette grey, of 16 bits if a number needs them.
std::vector<uint8_t> encode_stored_pixels(ImageSize size, std::span<const uint16_t> values,
                                          std::span<const uint32_t> palette = {});
// Throws InputError if the file cannot be written.
void write_stored_pixels(const std::string& path, ImageSize size, std::span<const uint16_t> values,
                         std::span<const uint32_t> palette = {});

}  // namespace saccade
