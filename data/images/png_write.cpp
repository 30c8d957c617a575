// Writes PNG files through libpng. Like PngReader: libpng is C and reports errors by longjmp, so nothing
// below a jump owns memory.
#include <png.h>
#include <zlib.h>

#include <csetjmp>
#include <new>

#include "core/files/output_file.h"
#include "core/tensor/error.h"
#include "data/images/codecs.h"

namespace saccade {
namespace {

constexpr int64_t kMaxSide = 0x7FFFFFFF;  // of the format

void append_to_file(png_structp png, png_bytep bytes, size_t count) {
  auto& file = *static_cast<std::vector<uint8_t>*>(png_get_io_ptr(png));
  bool fits = true;
  try {
    file.insert(file.end(), bytes, bytes + count);
  } catch (const std::bad_alloc&) {
    fits = false;
  }
  if (!fits) png_error(png, "no memory");
}

// Returns false if memory runs out, which is all that can happen.
bool write_file_of(png_structp png, png_infop info, ImageSize size, int channels, const uint8_t* pixels,
                   std::vector<uint8_t>& file) {
  if (setjmp(png_jmpbuf(png))) return false;  // NOLINT(cert-err52-cpp): libpng's way
  png_set_write_fn(png, &file, append_to_file, [](png_structp) {});
  png_set_user_limits(png, kMaxSide, kMaxSide);
  // Photographs and drawings compress as well by runs as by a search for equal strings, in a fifth of the
  // time.
  png_set_compression_strategy(png, Z_RLE);
  png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_SUB | PNG_FILTER_UP);
  png_set_IHDR(png, info, static_cast<png_uint_32>(size.width), static_cast<png_uint_32>(size.height), 8,
               channels == 4 ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (int64_t y = 0; y < size.height; ++y) png_write_row(png, pixels + y * size.width * channels);
  png_write_end(png, info);
  return true;
}

}  // namespace

std::vector<uint8_t> encode_png(ImageSize size, int channels, const std::vector<uint8_t>& pixels) {
  SACCADE_CHECK(size.height > 0 && size.width > 0 && size.height <= kMaxSide && size.width <= kMaxSide &&
                    (channels == 3 || channels == 4) &&
                    std::ssize(pixels) == size.height * size.width * channels,
                "[encode_png] size {} x {} with {} channels, expected at least 1 x 1, 3 or 4 channels and as "
                "many bytes",
                size.width, size.height, channels);
  png_structp png = png_create_write_struct(
      PNG_LIBPNG_VER_STRING, nullptr, [](png_structp p, png_const_charp) { png_longjmp(p, 1); }, nullptr);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  std::vector<uint8_t> file;
  const bool ok = info != nullptr && write_file_of(png, info, size, channels, pixels.data(), file);
  png_destroy_write_struct(&png, &info);
  if (!ok) throw std::bad_alloc();
  return file;
}

std::vector<uint8_t> encode_png(const Image& image) {
  return encode_png({image.height, image.width}, 3, image.rgb);
}

void write_png(const Image& image, const std::string& path) { write_file(path, encode_png(image)); }

}  // namespace saccade
