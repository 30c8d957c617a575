#include "data/images/image.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <set>

#include "core/files/descriptors.h"
#include "core/files/file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/images/codecs.h"
#include "data/images/orientation.h"
#include "data/images/resize.h"

namespace saccade {
namespace {

const ImageCodec& codec_of(Bytes head, const std::string& name) {
  for (const ImageCodec* codec : {&kJpegCodec, &kPngCodec, &kBmpCodec, &kWebpCodec, &kGifCodec, &kTiffCodec})
    if (codec->recognises(head)) return *codec;
  if (head.empty()) fail_input("{}: the file is empty, expected an image", name);
  if (has_text(head, 0, "BM") && lower_extension(name) == ".bmp")
    fail_input("{}: not a BMP file of a supported kind, expected one with a header of 12, 40 or more bytes",
               name);
  fail_input("{}: not an image in a supported format, expected {}", name, kImageFormats);
}

void check_size(ImageSize size, const std::string& name) {
  if (size.width <= 0 || size.height <= 0 || size.width > kMaxImagePixels / size.height)
    fail_input("{}: an image of {} x {} pixels, expected at least 1 and at most {} in all", name, size.width,
               size.height, kMaxImagePixels);
}

ImageHeader checked_header(const ImageCodec& codec, Bytes bytes, const std::string& name) {
  ImageHeader header = codec.header(bytes, name);
  check_size(header.stored, name);
  return header;
}

// Reads a part of a file that stays open, so that only the head is read of a file that is no image.
std::vector<uint8_t> read_bytes(const InputFile& file, uint64_t begin, uint64_t count) {
  std::vector<uint8_t> bytes(count);
  if (count > 0) file.read_at(bytes.data(), count, begin);
  return bytes;
}

// Enough for the headers of nearly all files; a photo's EXIF data with its thumbnail may be longer.
constexpr uint64_t kHead = uint64_t{32} << 10, kTail = 16;

// Throws for a size that no image has, and for a file with more bytes than an image of that size may have.
void check_file_size(ImageSize size, uint64_t bytes, const std::string& name) {
  check_size(size, name);
  // Eight bytes per pixel are 16 bits of red, green, blue and alpha; the rest is for profiles,
  // thumbnails and the like.
  const uint64_t most = (uint64_t{64} << 20) + 8 * static_cast<uint64_t>(size.height * size.width);
  if (bytes > most)
    fail_input("{}: {} bytes for {} x {} pixels, expected at most {}", name, bytes, size.width, size.height,
               most);
}

// Throws if the head shows that it is no valid image.
void look_at_head(const ImageCodec& codec, Bytes head, uint64_t bytes, const std::string& name) {
  if (const std::optional<ImageSize> size = codec.size(head, name)) check_file_size(*size, bytes, name);
}

// Inspects a file's first bytes and those that they point to; if these do not suffice, all of it.
ImageInspection peek_at(const ImageCodec& codec, const InputFile& file, Bytes head) {
  FilePieces pieces(file, head);
  if (const std::optional<ImageHeader> header = codec.peek(pieces, file.path())) {
    check_file_size(header->stored, file.size(), file.path());
    return {turned(header->stored, header->orientation), header->orientation, header->has_more};
  }
  return inspect_image(read_bytes(file, 0, file.size()), file.path());
}

}  // namespace

Bytes FilePieces::read(uint64_t at, uint64_t count) {
  constexpr int kMaxCalls = 4000;
  if (at >= size() || ++calls_ > kMaxCalls) return {};
  count = std::min(count, size() - at);
  if (at + count <= head_.size()) return head_.subspan(at, count);
  piece_.resize(count);
  file_.read_at(piece_.data(), count, at);
  return piece_;
}

std::string damaged_data(const char* format, const char* what) {
  return fmt::format("damaged {} data ({}), some pixels may be wrong", format, what);
}

void fail_cut(const std::string& name, const char* format) {
  fail_input("{}: damaged image (the {} file is cut off)", name, format);
}

void fail_empty(const std::string& name, ImageSize size, size_t bytes) {
  fail_input("{}: damaged image ({} bytes cannot hold {} x {} pixels)", name, bytes, size.width, size.height);
}

void fail_memory(const std::string& name) { fail("{}: out of memory", name); }

void check_image_size(int64_t height, int64_t width, const char* what) {
  if (height > 0 && width > kMaxImagePixels / height)
    fail_input("{} of {} x {} pixels, expected at most {} in all", what, width, height, kMaxImagePixels);
}

Image::Image(int64_t h, int64_t w) : height(h), width(w) {
  check_image_size(h, w);
  rgb.resize(static_cast<size_t>(h * w * 3));
}

Image cut_out(const Image& image, int64_t y, int64_t x, ImageSize size) {
  Image part(size.height, size.width);
  for (int64_t r = 0; r < size.height; ++r)
    std::copy_n(image.row(y + r) + x * 3, size.width * 3, part.row(r));
  return part;
}

Image decode_image(std::span<const uint8_t> bytes, const std::string& name, bool* has_more,
                   std::string* damage) {
  const ImageCodec& codec = codec_of(bytes, name);
  const ImageHeader header = checked_header(codec, bytes, name);
  if (has_more != nullptr) *has_more = header.has_more;
  try {
    Image image(header.stored.height, header.stored.width);
    std::string ignored;
    codec.decode(bytes, image, name, damage != nullptr ? *damage : ignored);
    return turned(std::move(image), header.orientation);
  } catch (const std::bad_alloc&) {
    fail_memory(name);
  }
}

Image decode_small_image(std::span<const uint8_t> bytes, const std::string& name, int64_t side,
                         std::string* damage) {
  const ImageCodec& codec = codec_of(bytes, name);
  const ImageHeader header = checked_header(codec, bytes, name);
  const int64_t larger = std::max(header.stored.height, header.stored.width);
  int reduction = 8;
  while (reduction > 1 && larger / reduction < side) reduction /= 2;
  std::string ignored;
  Image image = codec.decode_reduced != nullptr && reduction > 1
                    ? turned(codec.decode_reduced(bytes, header.stored, reduction, name,
                                                  damage != nullptr ? *damage : ignored),
                             header.orientation)
                    : decode_image(bytes, name, nullptr, damage);
  const int64_t longest = std::max(image.height, image.width);
  if (longest <= side) return image;
  auto scaled = [&](int64_t v) { return std::max<int64_t>(1, (v * side + longest / 2) / longest); };
  return resize_image(image, scaled(image.height), scaled(image.width));
}

ImageInspection inspect_image(std::span<const uint8_t> bytes, const std::string& name) {
  const ImageHeader header = checked_header(codec_of(bytes, name), bytes, name);
  return {turned(header.stored, header.orientation), header.orientation, header.has_more};
}

Image read_image(const std::string& path, bool* has_more, std::string* damage) {
  if (own_descriptor(path) >= 0)
    return decode_image(read_file(path, kImageFile), path, has_more, damage);  // a pipe can only be read once
  const InputFile file(path, kImageFile);
  std::vector<uint8_t> bytes = read_bytes(file, 0, std::min(file.size(), kHead));
  look_at_head(codec_of(bytes, path), bytes, file.size(), path);
  if (const uint64_t head = bytes.size(); head < file.size()) {
    bytes.resize(file.size());
    file.read_at(bytes.data() + head, file.size() - head, head);
  }
  return decode_image(bytes, path, has_more, damage);
}

ImageInspection check_image_file(const std::string& path) {
  const InputFile file(path, kImageFile);
  const std::vector<uint8_t> head = read_bytes(file, 0, std::min(file.size(), kHead));
  if (file.size() <= kHead) return inspect_image(head, path);
  const ImageCodec& codec = codec_of(head, path);
  const std::vector<uint8_t> tail = read_bytes(file, file.size() - kTail, kTail);
  look_at_head(codec, head, file.size(), path);
  if (!codec.looks_whole(head, tail, file.size()))
    return inspect_image(read_bytes(file, 0, file.size()), path);
  return peek_at(codec, file, head);
}

ImageSize image_size(const std::string& path) {
  constexpr uint64_t kFirstBytes = uint64_t{4} << 10;
  const InputFile file(path, kImageFile);
  const std::vector<uint8_t> head = read_bytes(file, 0, std::min(file.size(), kFirstBytes));
  if (file.size() <= kFirstBytes) return inspect_image(head, path).size;
  return peek_at(codec_of(head, path), file, head).size;
}

std::string lower_extension(const std::string& path) {
  return lower_case(std::filesystem::path(path).extension().string());
}

std::span<const std::string_view> image_extensions() {
  static constexpr std::string_view kExtensions[] = {".jpg", ".jpeg", ".png",  ".bmp",  ".webp",
                                                     ".gif", ".tif",  ".tiff", ".jfif", ".jpe"};
  return kExtensions;
}

bool has_image_extension(const std::string& path) {
  const std::string extension = lower_extension(path);
  return std::ranges::find(image_extensions(), extension) != image_extensions().end();
}

bool has_foreign_image_extension(const std::string& path) {
  static const std::set<std::string> kExtensions{".psd", ".tga",  ".ppm",  ".pgm",  ".pbm", ".pnm", ".hdr",
                                                 ".pic", ".heic", ".heif", ".avif", ".jp2", ".jxl"};
  return kExtensions.contains(lower_extension(path));
}

}  // namespace saccade
