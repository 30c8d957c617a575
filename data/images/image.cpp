#include "data/images/image.h"

#include <stb_image.h>
#include <stb_image_write.h>

#include <cctype>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "core/formats/file.h"
#include "core/formats/output_file.h"
#include "core/tensor/error.h"
#include "data/images/jpeg.h"

namespace saccade {
namespace {

// A Huffman table segment holds tables of 16 counts and as many symbols as these add up to, at most 256. Some
// releases of stb_image write past an array when there are more.
bool huffman_tables_are_sane(std::span<const uint8_t> segment) {
  while (!segment.empty()) {
    if (segment.size() < 17) return false;
    size_t symbols = 0;
    for (uint8_t count : segment.subspan(1, 16)) symbols += count;
    if (symbols > 256 || segment.size() < 17 + symbols) return false;
    segment = segment.subspan(17 + symbols);
  }
  return true;
}

// "" or what is wrong with the file's segments. Both decoders fill the missing part of a truncated JPEG with grey
// and carry on, so this looks for the end-of-image marker: it skips segments by their length and searches
// entropy-coded data for the next real marker.
std::string jpeg_problem(std::span<const uint8_t> b) {
  constexpr const char* cut = "the JPEG file is cut off";
  size_t i = 2;
  while (i + 1 < b.size()) {
    if (b[i] != 0xFF) {  // inside entropy-coded data
      const void* next = std::memchr(b.data() + i, 0xFF, b.size() - i);
      if (next == nullptr) return cut;
      i = static_cast<size_t>(static_cast<const uint8_t*>(next) - b.data());
      continue;
    }
    uint8_t marker = b[i + 1];
    if (marker == 0xD9) return "";
    bool alone = marker == 0x00 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
    if (marker == 0xFF) {
      ++i;  // fill byte
    } else if (alone) {
      i += 2;
    } else {
      if (i + 3 >= b.size()) return cut;
      size_t length = size_t{b[i + 2]} << 8 | b[i + 3];
      if (marker == 0xC4) {
        if (length < 2 || i + 2 + length > b.size()) return cut;
        if (!huffman_tables_are_sane(b.subspan(i + 4, length - 2))) return "a broken Huffman table";
      }
      i += 2 + length;
    }
  }
  return cut;
}

ImageSize checked_size(std::span<const uint8_t> bytes, const std::string& name) {
  if (bytes.empty()) fail_input("{}: the file is empty, expected an image", name);
  if (bytes.size() > (size_t{1} << 30))
    fail_input("{}: {} bytes are too many for an image", name, bytes.size());
  if (is_jpeg(bytes)) {
    std::string problem = jpeg_problem(bytes);
    if (!problem.empty()) fail_input("{}: damaged image ({})", name, problem);
  }
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width, &height, &channels)) {
    fail_input("{}: not an image that can be read ({})", name, stbi_failure_reason());
  }
  if (width <= 0 || height <= 0 || int64_t{width} * height > kMaxImagePixels) {
    fail_input("{}: an image of {} x {} pixels, expected at most {} in all", name, width, height,
               kMaxImagePixels);
  }
  return {height, width};
}

}  // namespace

Image decode_with_stb(std::span<const uint8_t> bytes, const std::string& name) {
  checked_size(bytes, name);
  int width = 0, height = 0, channels = 0;
  std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width, &height, &channels, 3),
      &stbi_image_free);
  if (!pixels) fail_input("{}: damaged image ({})", name, stbi_failure_reason());
  Image image;
  image.height = height;
  image.width = width;
  image.rgb.assign(pixels.get(),
                   pixels.get() + size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height));
  return image;
}

Image decode_image(std::span<const uint8_t> bytes, const std::string& name) {
  ImageSize size = checked_size(bytes, name);
  if (is_jpeg(bytes)) {
    if (std::optional<Image> image = decode_jpeg(bytes, size, name)) return std::move(*image);
  }
  return decode_with_stb(bytes, name);
}

Image read_image(const std::string& path) { return decode_image(read_file(path, kImageFile), path); }

ImageSize read_image_size(const std::string& path) { return checked_size(read_file(path, kImageFile), path); }

std::string lower_extension(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

bool has_image_extension(const std::string& path) {
  static const std::set<std::string> kExtensions{".jpg", ".jpeg", ".png", ".bmp", ".gif",
                                                 ".psd", ".tga",  ".ppm", ".pgm", ".pnm"};
  return kExtensions.contains(lower_extension(path));
}

std::vector<uint8_t> encode_png(const Image& image) {
  SACCADE_CHECK(image.height > 0 && image.width > 0, "[encode_png] size {} x {}, expected at least 1 x 1",
                image.width, image.height);
  std::vector<uint8_t> png;
  auto append = [](void* context, void* data, int size) {
    auto* out = static_cast<std::vector<uint8_t>*>(context);
    auto* begin = static_cast<const uint8_t*>(data);
    out->insert(out->end(), begin, begin + size);
  };
  int ok = stbi_write_png_to_func(append, &png, static_cast<int>(image.width), static_cast<int>(image.height),
                                  3, image.rgb.data(), static_cast<int>(image.width * 3));
  SACCADE_CHECK(ok != 0, "[encode_png] cannot encode {} x {} pixels", image.width, image.height);
  return png;
}

void write_png(const Image& image, const std::string& path) { write_file(path, encode_png(image)); }

}  // namespace saccade
