// The file formats of images. Each has one file; image.cpp asks them in turn.
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"
#include "data/images/image.h"

namespace saccade {

using Bytes = std::span<const uint8_t>;

struct ImageHeader {
  ImageSize stored;       // as stored, before rotation
  int orientation = 1;    // EXIF's, 1 to 8 (data/images/orientation.h)
  bool has_more = false;  // has further pictures after the first one
};

// Reads only the requested bytes of a file.
class FilePieces {
 public:
  FilePieces(const InputFile& file, Bytes head) : file_(file), head_(head) {}
  uint64_t size() const { return file_.size(); }
  // Returns `count` bytes from there, or fewer at the end of the file; valid until the next call. After too
  // many calls it returns none: then it is better to read the whole file.
  Bytes read(uint64_t at, uint64_t count);

 private:
  const InputFile& file_;
  Bytes head_;
  std::vector<uint8_t> piece_;
  int calls_ = 0;
};

struct ImageCodec {
  const char* name;
  // Recognises it by its first bytes.
  bool (*recognises)(Bytes file);
  // Returns the size if the first bytes of a file contain it; nothing if more are needed.
  // Throws if it is no such image.
  std::optional<ImageSize> (*size)(Bytes head, const std::string& name);
  // Returns header()'s result for a complete file from a few pieces; nothing if they do not suffice.
  std::optional<ImageHeader> (*peek)(FilePieces& file, const std::string& name);
  // Returns whether a file of `bytes` bytes with this head and tail looks complete; if not, read it to know.
  bool (*looks_whole)(Bytes head, Bytes tail, size_t bytes);
  // Reads a complete file's header and checks, without decoding, that nothing is cut off and that there is
  // enough data for the size. Throws InputError naming the file.
  ImageHeader (*header)(Bytes file, const std::string& name);
  // Decodes the pixels as stored, into an image of the header's size. Throws InputError naming the file for
  // all damage that the format can detect, except for what is read in spite of it, which `damage` names.
  void (*decode)(Bytes file, Image& image, const std::string& name, std::string& damage);
  // Decodes the picture, stored with this size, 2, 4 or 8 times smaller (sides rounded up), with less work;
  // null if the format does not support it.
  Image (*decode_reduced)(Bytes file, ImageSize stored, int reduction, const std::string& name,
                          std::string& damage) = nullptr;
};

extern const ImageCodec kJpegCodec, kPngCodec, kBmpCodec, kWebpCodec, kGifCodec, kTiffCodec;

// Read numbers in a file. The caller has checked that they are there.
inline uint32_t big16(Bytes b, size_t at) { return uint32_t{b[at]} << 8 | b[at + 1]; }
inline uint32_t big32(Bytes b, size_t at) { return big16(b, at) << 16 | big16(b, at + 2); }
inline uint32_t little16(Bytes b, size_t at) { return uint32_t{b[at + 1]} << 8 | b[at]; }
inline uint32_t little32(Bytes b, size_t at) { return little16(b, at + 2) << 16 | little16(b, at); }
// Returns whether the text is at this place.
inline bool has_text(Bytes b, size_t at, std::string_view text) {
  return b.size() >= at + text.size() && std::memcmp(b.data() + at, text.data(), text.size()) == 0;
}
// Returns a PNG file of pixels with 3 (RGB) or 4 (with alpha) channels, row by row.
std::vector<uint8_t> encode_png(ImageSize size, int channels, const std::vector<uint8_t>& pixels);
// Pillow's ImagingConvert from CMYK to RGB, for pixels that are stored inverted,
// as Adobe's programs write them.
void cmyk_to_rgb(Bytes cmyk, uint8_t* rgb);
// Returns what a warning of libjpeg says about the pixels; null if they are right. Every viewer, including
// Pillow, overlooks these.
const char* jpeg_damage(std::string_view warning);
inline constexpr const char* kDataMissing = "some of it is missing";
// Returns ImageCodec::decode's `damage`.
std::string damaged_data(const char* format, const char* what);
[[noreturn]] void fail_cut(const std::string& name, const char* format);
// So few bytes cannot contain so many pixels.
[[noreturn]] void fail_empty(const std::string& name, ImageSize size, size_t bytes);
// Its pixels do not fit in memory: Error, since it is no fault of the file, which must not be skipped for it.
[[noreturn]] void fail_memory(const std::string& name);

}  // namespace saccade
