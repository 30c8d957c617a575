// PNG through libpng. Every checksum counts. https://www.w3.org/TR/png-3/
#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "core/tensor/error.h"
#include "data/images/codecs.h"
#include "data/images/orientation.h"

namespace saccade {
namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kPngEnd("\0\0\0\0IEND\xAE\x42\x60\x82", 12);

bool is_png(Bytes b) { return has_text(b, 0, kPngSignature); }

std::optional<ImageSize> png_size(Bytes head, const std::string&) {
  if (head.size() < 33 || !has_text(head, 12, "IHDR")) return std::nullopt;
  // Its own checksum: what libpng refuses is refused before a training begins.
  if (crc32_z(0, head.data() + 12, 17) != big32(head, 29)) return std::nullopt;
  return ImageSize{big32(head, 20), big32(head, 16)};
}

std::optional<ImageHeader> png_peek(FilePieces& file, const std::string& name) {
  const std::optional<ImageSize> size = png_size(file.read(0, 33), name);
  if (!size) return std::nullopt;
  ImageHeader header{*size};
  for (uint64_t at = kPngSignature.size();;) {
    const Bytes b = file.read(at, 8);
    if (b.size() < 8) return std::nullopt;
    if (has_text(b, 4, "IEND")) return header;
    const uint64_t length = big32(b, 0);
    if (has_text(b, 4, "eXIf"))
      header.orientation = exif_orientation(file.read(at + 8, std::min<uint64_t>(length, kMostExifBytes)));
    at += 12 + length;
  }
}

bool png_looks_whole(Bytes, Bytes tail, size_t) {
  return tail.size() >= kPngEnd.size() && has_text(tail, tail.size() - kPngEnd.size(), kPngEnd);
}

ImageHeader png_header(Bytes b, const std::string& name) {
  const std::optional<ImageSize> size = png_size(b, name);
  if (!size) fail_input("{}: damaged image (a PNG file without a whole header)", name);
  ImageHeader header{*size};
  size_t data = 0;
  for (size_t at = kPngSignature.size();;) {
    if (b.size() - at < 12) fail_cut(name, "PNG");
    const size_t length = big32(b, at);
    if (length > b.size() - at - 12) fail_cut(name, "PNG");
    if (has_text(b, at + 4, "IEND")) break;
    if (has_text(b, at + 4, "IDAT")) data += length;
    if (has_text(b, at + 4, "eXIf")) header.orientation = exif_orientation(b.subspan(at + 8, length));
    at += 12 + length;
  }
  // Deflate packs at most 1032 bytes into one; a pixel has at least one bit.
  constexpr int64_t kMostPixelsPerByte = 8 * 1032;
  if (size->height > 0 && size->width > static_cast<int64_t>(data) * kMostPixelsPerByte / size->height)
    fail_empty(name, *size, data);
  return header;
}

// libpng's state beside the file that it reads. Its errors jump (it is C), so nothing below a jump owns memory.
struct PngReader {
  PngReader(Bytes b) : file(b) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png != nullptr) info = png_create_info_struct(png);
    SACCADE_CHECK(info != nullptr, "[decode_png] libpng cannot be started");
  }
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  static void on_error(png_structp png, png_const_charp text) {
    auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(reader->problem, text, sizeof(reader->problem) - 1);
    reader->no_memory = std::strstr(text, "memory") != nullptr;  // its own words and zlib's have no number
    png_longjmp(png, 1);
  }
  // Of warnings only those about the pixels count: too many, too few or a wrong checksum.
  static void on_warning(png_structp png, png_const_charp text) {
    if (std::strstr(text, "IDAT") != nullptr) on_error(png, text);
  }
  static void read(png_structp png, png_bytep to, size_t count) {
    auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > reader->file.size() - reader->at) png_error(png, "the PNG file is cut off");
    std::memcpy(to, reader->file.data() + reader->at, count);
    reader->at += count;
    // After the last row libpng would inflate and throw away whatever there is.
    if (reader->at > reader->row_end) png_error(png, "more data than its pixels need");
  }

  bool decode(Image& image) {
    if (setjmp(png_jmpbuf(png))) return false;  // NOLINT(cert-err52-cpp): libpng's way
    png_set_read_fn(png, this, read);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_user_limits(png, 0x7FFFFFFF, 0x7FFFFFFF);                       // image.cpp has its own
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // texts, profiles
    png_read_info(png, info);
    if (png_get_image_width(png, info) != image.width || png_get_image_height(png, info) != image.height)
      png_error(png, "two sizes");
    png_set_strip_16(png);
    png_set_palette_to_rgb(png);
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    const size_t stride = png_get_rowbytes(png, info);
    if (stride != image.rgb.size() / static_cast<size_t>(image.height))
      png_error(png, "an unknown form of pixels");
    for (int pass = 0; pass < passes; ++pass)
      for (int64_t y = 0; y < image.height; ++y) {
        row_end = at + 4 * stride + (size_t{1} << 16);
        png_read_row(png, image.row(y), nullptr);
      }
    row_end = file.size();
    png_read_end(png, nullptr);
    return true;
  }

  Bytes file;
  size_t at = 0, row_end = SIZE_MAX;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char problem[128] = "";
  bool no_memory = false;
};

void png_decode(Bytes b, Image& image, const std::string& name) {
  PngReader reader(b);
  const bool ok = reader.decode(image);
  if (reader.no_memory) fail_memory(name);
  if (!ok) fail_input("{}: damaged image ({})", name, reader.problem);
}

}  // namespace

const ImageCodec kPngCodec{"PNG", is_png, png_size, png_peek, png_looks_whole, png_header, png_decode};

}  // namespace saccade
