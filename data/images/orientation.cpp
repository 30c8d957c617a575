#include "data/images/orientation.h"

#include <algorithm>
#include <cstring>

#include "data/images/codecs.h"

namespace saccade {

int exif_orientation(std::span<const uint8_t> exif) {
  exif = exif.first(std::min(exif.size(), kMaxExifBytes));
  if (has_text(exif, 0, std::string_view("Exif\0\0", 6))) exif = exif.subspan(6);
  const bool little = has_text(exif, 0, std::string_view("II*\0", 4));
  if (!little && !has_text(exif, 0, std::string_view("MM\0*", 4))) return 1;
  auto u16 = [&](size_t at) { return little ? little16(exif, at) : big16(exif, at); };
  auto u32 = [&](size_t at) { return little ? little32(exif, at) : big32(exif, at); };
  if (exif.size() < 8) return 1;
  const size_t directory = u32(4);
  if (directory > exif.size() || exif.size() - directory < 2) return 1;
  const size_t entries = u16(directory);
  for (size_t i = 0; i < entries; ++i) {
    const size_t at = directory + 2 + 12 * i;
    if (at + 12 > exif.size()) return 1;
    if (u16(at) != 0x0112) continue;
    const uint32_t type = u16(at + 2);  // 3: 16 bits, 4: 32 bits
    if (u32(at + 4) != 1) return 1;     // count: a tag without a value
    const uint32_t value = type == 3 ? u16(at + 8) : type == 4 ? u32(at + 8) : 1;
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

size_t exif_directory_end(std::span<const uint8_t> exif) {
  const size_t before = has_text(exif, 0, std::string_view("Exif\0\0", 6)) ? 6 : 0;
  exif = exif.subspan(before);
  if (exif.size() < 8) return before + 8;
  const bool little = has_text(exif, 0, "II");
  const size_t directory = little ? little32(exif, 4) : big32(exif, 4);
  if (directory > exif.size() || exif.size() - directory < 2) return before + directory + 2;
  return before + directory + 2 + 12 * (little ? little16(exif, directory) : big16(exif, directory));
}

ImageSize turned(ImageSize size, int orientation) {
  if (orientation < 5) return size;
  return {size.width, size.height};
}

Image turned(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const ImageSize size = turned(ImageSize{image.height, image.width}, orientation);
  Image out(size.height, size.width);
  // The stored pixel that is shown at (0, 0), and the steps to the pixels shown right of it and below it.
  const int64_t right = 3, down = 3 * image.width;
  const int64_t last_column = right * (image.width - 1), last_row = down * (image.height - 1);
  int64_t begin = 0, dx = right, dy = down;
  switch (orientation) {
    case 2:
      begin = last_column, dx = -right;
      break;  // mirrored
    case 3:
      begin = last_row + last_column, dx = -right, dy = -down;
      break;  // upside down
    case 4:
      begin = last_row, dy = -down;
      break;  // upside down and mirrored
    case 5:
      dx = down, dy = right;
      break;  // transposed
    case 6:
      begin = last_row, dx = -down, dy = right;
      break;  // fixed by a quarter turn clockwise
    case 7:
      begin = last_row + last_column, dx = -down, dy = -right;
      break;  // transposed along the other diagonal
    default:
      begin = last_column, dx = down, dy = -right;
      break;  // fixed by a quarter turn counter-clockwise
  }
  for (int64_t y = 0; y < out.height; ++y) {
    const uint8_t* in = image.rgb.data() + begin + y * dy;
    uint8_t* to = out.row(y);
    for (int64_t x = 0; x < out.width; ++x) std::memcpy(to + 3 * x, in + x * dx, 3);
  }
  return out;
}

}  // namespace saccade
