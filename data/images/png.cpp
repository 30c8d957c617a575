// PNG through libpng. Every checksum is checked. https://www.w3.org/TR/png-3/
#include <zlib.h>

#include <algorithm>

#include "core/tensor/error.h"
#include "data/images/codecs.h"
#include "data/images/orientation.h"
#include "data/images/png_reader.h"

namespace saccade {
namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kPngEnd("\0\0\0\0IEND\xAE\x42\x60\x82", 12);

constexpr size_t kHeaderEnd = 33;

bool is_png(Bytes b) { return has_text(b, 0, kPngSignature); }

std::optional<ImageSize> png_size(Bytes head, const std::string&) {
  if (head.size() < kHeaderEnd || !has_text(head, 12, "IHDR")) return std::nullopt;
  // The checksum of the header: what libpng refuses must be refused before training starts.
  if (crc32_z(0, head.data() + 12, 17) != big32(head, 29)) return std::nullopt;
  return ImageSize{big32(head, 20), big32(head, 16)};
}

// Returns whether the chunk of an animation announces several frames.
bool has_frames(Bytes control) { return control.size() >= 4 && big32(control, 0) > 1; }

std::optional<ImageHeader> png_peek(FilePieces& file, const std::string& name) {
  const std::optional<ImageSize> size = png_size(file.read(0, kHeaderEnd), name);
  if (!size) return std::nullopt;
  ImageHeader header{*size};
  for (uint64_t at = kPngSignature.size();;) {
    const Bytes b = file.read(at, 8);
    if (b.size() < 8) return std::nullopt;
    if (has_text(b, 4, "IEND")) return header;
    const uint64_t length = big32(b, 0);
    if (has_text(b, 4, "acTL"))
      header.has_more = has_frames(file.read(at + 8, 4));
    else if (has_text(b, 4, "eXIf"))
      header.orientation = exif_orientation(file.read(at + 8, std::min<uint64_t>(length, kMaxExifBytes)));
    at += 12 + length;
  }
}

bool png_looks_whole(Bytes, Bytes tail, size_t) {
  return tail.size() >= kPngEnd.size() && has_text(tail, tail.size() - kPngEnd.size(), kPngEnd);
}

ImageHeader png_header(Bytes b, const std::string& name) {
  const std::optional<ImageSize> size = png_size(b, name);
  if (!size && has_text(b, 12, "IHDR") && b.size() >= kHeaderEnd)
    fail_input("{}: damaged image (a PNG file whose header has a wrong checksum)", name);
  if (!size) fail_input("{}: damaged image (a PNG file without a whole header)", name);
  ImageHeader header{*size};
  size_t data = 0;
  for (size_t at = kPngSignature.size();;) {
    if (b.size() - at < 12) fail_cut(name, "PNG");
    const size_t length = big32(b, at);
    if (length > b.size() - at - 12) fail_cut(name, "PNG");
    if (has_text(b, at + 4, "IEND")) break;
    if (has_text(b, at + 4, "IDAT")) data += length;
    if (has_text(b, at + 4, "acTL")) header.has_more = has_frames(b.subspan(at + 8, length));
    if (has_text(b, at + 4, "eXIf")) header.orientation = exif_orientation(b.subspan(at + 8, length));
    at += 12 + length;
  }
  // Deflate packs at most 1032 bytes into one; a pixel has at least one bit.
  constexpr int64_t kMaxPixelsPerByte = 8 * 1032;
  if (size->height > 0 && size->width > static_cast<int64_t>(data) * kMaxPixelsPerByte / size->height)
    fail_empty(name, *size, data);
  return header;
}

// Converts to 8-bit RGB.
void as_rgb(png_structp png) {
  png_set_strip_16(png);
  png_set_palette_to_rgb(png);
  png_set_expand_gray_1_2_4_to_8(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
}

void png_decode(Bytes b, Image& image, const std::string& name, std::string&) {
  PngReader(b).decode({image.height, image.width}, image.rgb, as_rgb, name);
}

}  // namespace

const ImageCodec kPngCodec{"PNG", is_png, png_size, png_peek, png_looks_whole, png_header, png_decode};

}  // namespace saccade
