// Windows bitmaps without compression: 1, 4 and 8 bits with a palette, 16, 24 and 32 bits, rows from the
// bottom or from the top.
// https://learn.microsoft.com/windows/win32/gdi/bitmap-storage
#include <array>
#include <bit>
#include <cstdlib>

#include "core/tensor/error.h"
#include "data/images/codecs.h"

namespace saccade {
namespace {

constexpr size_t kFileHeader = 14;

struct BmpLayout {
  int64_t width = 0, height = 0;
  bool top_down = false;
  uint32_t bits = 0;
  std::array<uint32_t, 3> masks{};  // of red, green and blue in pixels of 16 and 32 bits
  size_t palette_at = 0, colours = 0, colour_bytes = 4;
  size_t pixels_at = 0, stride = 0;
};

// Other files may also start with "BM".
bool is_bmp(Bytes b) {
  if (b.size() < 26 || !has_text(b, 0, "BM")) return false;
  const uint32_t header = little32(b, 14);
  return header == 12 || header == 40 || header == 52 || header == 56 || header == 64 || header == 108 ||
         header == 124;
}

std::string compression_name(uint32_t compression) {
  switch (compression) {
    case 1:
    case 2:
      return "run lengths (RLE)";
    case 4:
      return "a JPEG inside";
    case 5:
      return "a PNG inside";
    default:
      return fmt::format("compression {}", compression);
  }
}

// Throws InputError unless it is a bitmap of the kinds above; the pixels may be missing.
BmpLayout bmp_layout(Bytes b, const std::string& name) {
  const uint32_t header = little32(b, 14);
  const bool is_os2 = header == 12;
  if (b.size() < kFileHeader + header) fail_cut(name, "BMP");
  BmpLayout l;
  uint32_t compression = 0, used = 0;
  if (is_os2) {
    l.width = little16(b, 18);
    l.height = little16(b, 20);
    l.bits = little16(b, 24);
    l.colour_bytes = 3;
  } else {
    l.width = static_cast<int32_t>(little32(b, 18));
    l.height = static_cast<int32_t>(little32(b, 22));
    l.top_down = l.height < 0;
    l.height = std::abs(l.height);
    l.bits = little16(b, 28);
    compression = little32(b, 30);
    used = little32(b, 46);
  }
  const bool has_masks = compression == 3 || compression == 6;
  if (compression != 0 && !has_masks)
    fail_input("{}: a BMP file with {}, expected an uncompressed one", name, compression_name(compression));
  if (has_masks && l.bits != 16 && l.bits != 32)
    fail_input("{}: a BMP file with colour masks for {} bits per pixel, expected 16 or 32", name, l.bits);
  if (l.bits != 1 && l.bits != 4 && l.bits != 8 && l.bits != 16 && l.bits != 24 && l.bits != 32)
    fail_input("{}: a BMP file of {} bits per pixel, expected 1, 4, 8, 16, 24 or 32", name, l.bits);
  l.masks = l.bits == 16 ? std::array<uint32_t, 3>{0x7C00, 0x03E0, 0x001F}
                         : std::array<uint32_t, 3>{0xFF0000, 0x00FF00, 0x0000FF};
  l.palette_at = kFileHeader + header;
  if (has_masks) {  // after a header of 40 bytes; in a longer one they are its next fields
    if (b.size() < 66) fail_cut(name, "BMP");
    for (size_t c = 0; c < 3; ++c) {
      l.masks[c] = little32(b, 54 + 4 * c);
      const uint32_t low = l.masks[c] >> std::countr_zero(l.masks[c] | 1u << 31);
      if (l.masks[c] == 0 || (low & (low + 1)) != 0)
        fail_input("{}: a BMP file whose colour mask {:#x} is not contiguous", name, l.masks[c]);
    }
    if (header == 40) l.palette_at += 12;
  }
  l.pixels_at = little32(b, 10);
  if (l.bits <= 8) {
    l.colours = used == 0 ? size_t{1} << l.bits : used;
    if (l.colours > size_t{1} << l.bits || l.palette_at + l.colours * l.colour_bytes > l.pixels_at)
      fail_input("{}: a BMP file whose palette of {} colours is not before its pixels", name, l.colours);
  }
  if (l.pixels_at < l.palette_at) fail_input("{}: a BMP file whose pixels begin in its header", name);
  l.stride = (static_cast<size_t>(l.width) * l.bits + 31) / 32 * 4;
  return l;
}

bool bmp_is_complete(const BmpLayout& l, size_t bytes) {
  return l.width > 0 && l.height > 0 && l.pixels_at <= bytes &&
         l.stride <= (bytes - l.pixels_at) / static_cast<size_t>(l.height);
}

ImageHeader bmp_header(Bytes b, const std::string& name) {
  const BmpLayout l = bmp_layout(b, name);
  if (l.width > 0 && l.height > 0 && !bmp_is_complete(l, b.size())) fail_cut(name, "BMP");
  return {{l.height, l.width}};
}

std::optional<ImageSize> bmp_size(Bytes head, const std::string& name) {
  const BmpLayout l = bmp_layout(head, name);
  return ImageSize{l.height, l.width};
}

std::optional<ImageHeader> bmp_peek(FilePieces& file, const std::string& name) {
  const Bytes head = file.read(0, kFileHeader + 124);
  if (!is_bmp(head)) return std::nullopt;
  const BmpLayout l = bmp_layout(head, name);
  return ImageHeader{{l.height, l.width}};
}

bool bmp_looks_whole(Bytes head, Bytes, size_t bytes) { return bmp_is_complete(bmp_layout(head, ""), bytes); }

// Returns the channel that the mask selects, as a byte.
uint8_t channel(uint32_t pixel, uint32_t mask) {
  const int shift = std::countr_zero(mask);
  const uint64_t most = mask >> shift, value = (pixel & mask) >> shift;
  return static_cast<uint8_t>((value * 255 + most / 2) / most);
}

void bmp_row_of_colours(const BmpLayout& l, Bytes b, const uint8_t* row, uint8_t* to,
                        const std::string& name) {
  for (int64_t x = 0; x < l.width; ++x) {
    const size_t bit = static_cast<size_t>(x) * l.bits;
    const size_t index = row[bit / 8] >> (8 - l.bits - bit % 8) & ((1u << l.bits) - 1);
    if (index >= l.colours)
      fail_input("{}: damaged image (colour {}, but the palette has {})", name, index, l.colours);
    const uint8_t* bgr = b.data() + l.palette_at + index * l.colour_bytes;
    for (size_t c = 0; c < 3; ++c) to[3 * x + static_cast<int64_t>(c)] = bgr[2 - c];
  }
}

void bmp_decode(Bytes b, Image& image, const std::string& name, std::string&) {
  const BmpLayout l = bmp_layout(b, name);
  const size_t pixel_bytes = l.bits / 8;
  for (int64_t y = 0; y < l.height; ++y) {
    const uint8_t* row =
        b.data() + l.pixels_at + l.stride * static_cast<size_t>(l.top_down ? y : l.height - 1 - y);
    uint8_t* to = image.row(y);
    if (l.bits <= 8) {
      bmp_row_of_colours(l, b, row, to, name);
      continue;
    }
    for (int64_t x = 0; x < l.width; ++x) {
      const Bytes pixel(row + static_cast<size_t>(x) * pixel_bytes, pixel_bytes);
      for (size_t c = 0; c < 3; ++c)
        to[3 * x + static_cast<int64_t>(c)] =
            l.bits == 24 ? pixel[2 - c]
                         : channel(l.bits == 16 ? little16(pixel, 0) : little32(pixel, 0), l.masks[c]);
    }
  }
}

}  // namespace

const ImageCodec kBmpCodec{"BMP", is_bmp, bmp_size, bmp_peek, bmp_looks_whole, bmp_header, bmp_decode};

}  // namespace saccade
