#include "data/images/stored_pixels.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>

#include "core/files/output_file.h"
#include "core/tensor/error.h"
#include "data/images/png_reader.h"

namespace saccade {
namespace {

// Offsets in the header, https://www.w3.org/TR/png-3/#11IHDR.
constexpr size_t kBitsAt = 24, kTypeAt = 25;
constexpr uint8_t kHasColors = 2, kIsIndexed = 3;

// Reads a number as one byte, or as two of 16 bits in this processor's byte order.
void as_numbers(png_structp png) {
  png_set_packing(png);
  png_set_strip_alpha(png);
  if constexpr (std::endian::native == std::endian::little) png_set_swap(png);
}

void as_colors(png_structp png) {
  png_set_strip_16(png);
  png_set_strip_alpha(png);
}

uint32_t color_of(const png_color& c) { return uint32_t{c.red} << 16 | uint32_t{c.green} << 8 | c.blue; }

void refuse_other_files(Bytes head, const std::string& path) {
  if (!kPngCodec.recognises(head)) fail_input("{}: not a PNG file, expected a label map as PNG", path);
}

void refuse_turned(int orientation, const std::string& path) {
  if (orientation != 1)
    fail_input("{}: is rotated by its EXIF orientation, expected a label map without one", path);
}

StoredPixels decode_stored(Bytes bytes, const std::string& path) {
  refuse_other_files(bytes, path);
  const ImageHeader header = kPngCodec.header(bytes, path);
  refuse_turned(header.orientation, path);
  if (header.stored.height < 1 || header.stored.width < 1) fail_input("{}: damaged image (no pixels)", path);
  check_image_size(header.stored.height, header.stored.width, (path + ": an image").c_str());
  StoredPixels stored;
  stored.size = header.stored;
  stored.bits = bytes[kBitsAt];
  const uint8_t type = bytes[kTypeAt];
  const bool is_colored = (type & kHasColors) != 0 && type != kIsIndexed;
  const auto count = static_cast<size_t>(stored.size.height * stored.size.width);
  const size_t width = is_colored ? 3 : stored.bits == 16 ? 2 : 1;
  std::vector<uint8_t> pixels(count * width);
  PngReader reader(bytes);
  reader.decode(stored.size, pixels, is_colored ? as_colors : as_numbers, path);
  if (is_colored) {
    stored.colors.resize(count);
    for (size_t i = 0; i < count; ++i)
      stored.colors[i] = uint32_t{pixels[3 * i]} << 16 | uint32_t{pixels[3 * i + 1]} << 8 | pixels[3 * i + 2];
    return stored;
  }
  stored.values.resize(count);
  if (width == 2)
    std::memcpy(stored.values.data(), pixels.data(), pixels.size());
  else
    std::ranges::copy(pixels, stored.values.begin());
  if (type == kIsIndexed)
    std::ranges::transform(reader.palette(), std::back_inserter(stored.palette), color_of);
  return stored;
}

}  // namespace

StoredPixels read_stored_pixels(const std::string& path) {
  try {
    return decode_stored(read_file(path, kImageFile), path);
  } catch (const std::bad_alloc&) {
    fail_memory(path);
  }
}

ImageSize check_stored_pixels(const std::string& path) {
  const ImageInspection seen = check_image_file(path);
  const InputFile file(path, kImageFile);
  std::array<uint8_t, 16> head{};
  const uint64_t count = std::min<uint64_t>(head.size(), file.size());
  file.read_at(head.data(), count, 0);
  refuse_other_files(Bytes(head.data(), count), path);
  refuse_turned(seen.orientation, path);
  return seen.size;
}

void write_stored_pixels(const std::string& path, ImageSize size, std::span<const uint16_t> values,
                         std::span<const uint32_t> palette) {
  write_file(path, encode_stored_pixels(size, values, palette));
}

std::vector<uint8_t> encode_stored_pixels(ImageSize size, std::span<const uint16_t> values,
                                          std::span<const uint32_t> palette) {
  const uint16_t greatest = values.empty() ? 0 : std::ranges::max(values);
  SACCADE_CHECK(size.height > 0 && size.width > 0 && std::ssize(values) == size.height * size.width &&
                    palette.size() <= 256 && (palette.empty() || greatest < palette.size()),
                "[encode_stored_pixels] {} values up to {} and {} colours for {} x {} pixels", values.size(),
                greatest, palette.size(), size.width, size.height);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(size.width);
  image.height = static_cast<png_uint_32>(size.height);
  image.format = !palette.empty() ? PNG_FORMAT_RGB_COLORMAP
                 : greatest > 255 ? PNG_FORMAT_LINEAR_Y
                                  : PNG_FORMAT_GRAY;
  image.colormap_entries = static_cast<png_uint_32>(palette.size());
  std::array<png_byte, 3 * 256> colors{};
  for (size_t i = 0; i < palette.size(); ++i)
    for (size_t c = 0; c < 3; ++c) colors[3 * i + c] = static_cast<png_byte>(palette[i] >> (16 - 8 * c));
  const std::vector<uint8_t> bytes(values.begin(), values.end());
  const void* pixels =
      image.format == PNG_FORMAT_LINEAR_Y ? static_cast<const void*>(values.data()) : bytes.data();
  png_alloc_size_t count = 0;
  std::vector<uint8_t> file;
  bool ok = png_image_write_get_memory_size(image, count, 0, pixels, 0, colors.data()) != 0;
  if (ok) {
    file.resize(count);
    ok = png_image_write_to_memory(&image, file.data(), &count, 0, pixels, 0, colors.data()) != 0;
  }
  SACCADE_CHECK(ok, "[encode_stored_pixels] {}", image.message);
  file.resize(count);
  return file;
}

}  // namespace saccade
