// What the pixels of a PNG file are before they become colours: numbers, as label maps have them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/types/image_size.h"

namespace saccade {

struct StoredPixels {
  ImageSize size;
  int bits = 8;  // of a number in the file: 1, 2, 4, 8 or 16
  std::vector<uint16_t>
      values;  // [height, width]: grey, or an index of the palette; empty for an image of colours
  std::vector<uint32_t> colors;   // [height, width] of such a one, 0xRRGGBB; else empty
  std::vector<uint32_t> palette;  // 0xRRGGBB; empty: the numbers are grey
};

// Alpha is dropped. Throws InputError naming the file for what read_image refuses, for images that are no
// PNG, and for those that an EXIF orientation turns: whether their image is turned likewise is not known.
StoredPixels read_stored_pixels(const std::string& path);

// The size, from the file's first and last bytes where they suffice. The same errors, but for damage that
// only decoding shows.
ImageSize check_stored_pixels(const std::string& path);

// A PNG file of numbers: of 8 bits with this palette, which has at most 256 colours and at least one for each
// number; without one grey, of 16 bits where a number needs them.
std::vector<uint8_t> encode_stored_pixels(ImageSize size, std::span<const uint16_t> values,
                                          std::span<const uint32_t> palette = {});
// Throws InputError when the file cannot be written.
void write_stored_pixels(const std::string& path, ImageSize size, std::span<const uint16_t> values,
                         std::span<const uint32_t> palette = {});

}  // namespace saccade
