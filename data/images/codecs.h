// The file formats that images are read from. One file a format; image.cpp asks them in turn.
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
  ImageSize stored;       // as stored, before it is turned
  int orientation = 1;    // EXIF's, 1 to 8 (data/images/orientation.h)
  bool has_more = false;  // pictures than the first one
};

// The bytes of a file, of which only those are read that are asked for.
class FilePieces {
 public:
  FilePieces(const InputFile& file, Bytes head) : file_(file), head_(head) {}
  uint64_t size() const { return file_.size(); }
  // So many bytes from there, or fewer where the file ends; until the next call. After too many calls there
  // are none: then it is better to read all of the file.
  Bytes read(uint64_t at, uint64_t count);

 private:
  const InputFile& file_;
  Bytes head_;
  std::vector<uint8_t> piece_;
  int calls_ = 0;
};

struct ImageCodec {
  const char* name;
  // By its first bytes.
  bool (*recognises)(Bytes file);
  // The size where the first bytes of a file tell it; nothing where more are needed.
  // Throws for what is no such image.
  std::optional<ImageSize> (*size)(Bytes head, const std::string& name);
  // What header() tells of a file that is whole, from a few pieces of it; nothing where they do not tell.
  std::optional<ImageHeader> (*peek)(FilePieces& file, const std::string& name);
  // Whether a file of `bytes` bytes with this head and tail looks whole; if not, it has to be read to know.
  bool (*looks_whole)(Bytes head, Bytes tail, size_t bytes);
  // Of a whole file, after checks that no pixel is needed for: that nothing is cut off, and that there is
  // enough data for the size to be true. Throws InputError naming the file.
  ImageHeader (*header)(Bytes file, const std::string& name);
  // The pixels as stored, into an image of the header's size. Throws InputError naming the file for every
  // damage that the format can tell.
  void (*decode)(Bytes file, Image& image, const std::string& name);
  // The picture, stored with this size, 2, 4 or 8 times smaller (sides rounded up), with less work; null: the
  // format has no such thing.
  Image (*decode_reduced)(Bytes file, ImageSize stored, int reduction, const std::string& name) = nullptr;
};

extern const ImageCodec kJpegCodec, kPngCodec, kBmpCodec, kWebpCodec, kGifCodec, kTiffCodec;

// Numbers in a file. The caller has checked that they are there.
inline uint32_t big16(Bytes b, size_t at) { return uint32_t{b[at]} << 8 | b[at + 1]; }
inline uint32_t big32(Bytes b, size_t at) { return big16(b, at) << 16 | big16(b, at + 2); }
inline uint32_t little16(Bytes b, size_t at) { return uint32_t{b[at + 1]} << 8 | b[at]; }
inline uint32_t little32(Bytes b, size_t at) { return little16(b, at + 2) << 16 | little16(b, at); }
// Whether the text stands at this place.
inline bool has_text(Bytes b, size_t at, std::string_view text) {
  return b.size() >= at + text.size() && std::memcmp(b.data() + at, text.data(), text.size()) == 0;
}
// The bytes of a PNG file of pixels of 3 (RGB) or 4 (and alpha) channels, row by row.
std::vector<uint8_t> encode_png(ImageSize size, int channels, const std::vector<uint8_t>& pixels);
// Pillow's ImagingConvert from CMYK to RGB, of pixels that are stored inverted,
// as Adobe's programs write them.
void cmyk_to_rgb(Bytes cmyk, uint8_t* rgb);
[[noreturn]] void fail_cut(const std::string& name, const char* format);
// There cannot be this many pixels in so few bytes.
[[noreturn]] void fail_empty(const std::string& name, ImageSize size, size_t bytes);
// There is no memory for its pixels: Error, for it is no fault of the file, which must not be skipped for it.
[[noreturn]] void fail_memory(const std::string& name);

}  // namespace saccade
