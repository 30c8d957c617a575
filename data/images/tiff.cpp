// The first page of a TIFF file through libtiff: grey, palettes, RGB and CMYK of up to 16 bits, in strips or
// tiles.
// https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf
#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <memory>

#include "core/tensor/error.h"
#include "data/images/codecs.h"
#include "data/images/tiff_kinds.h"

namespace saccade {
namespace {

// The limit of each of libtiff's allocations; libtiff stores neither the pixels nor much of a file in memory.
constexpr tmsize_t kMaxMemory = tmsize_t{256} << 20;

bool is_tiff(Bytes b) {
  return has_text(b, 0, {"II*\0", 4}) || has_text(b, 0, {"MM\0*", 4}) || has_text(b, 0, {"II+\0", 4}) ||
         has_text(b, 0, {"MM\0+", 4});
}

// What libtiff reads from: a whole file, or pieces of it.
struct TiffSource {
  Bytes memory;  // empty if there are only pieces
  FilePieces* pieces = nullptr;
  uint64_t size = 0, at = 0;
};

// libtiff's state. Its messages are kept here; its process-wide handlers are left alone.
class TiffReader {
 public:
  explicit TiffReader(TiffSource source) : source_(source) {
    std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
    SACCADE_CHECK(options != nullptr, "[decode_tiff] libtiff cannot be started");
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMaxMemory);
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, this);
    tiff_.reset(TIFFClientOpenExt(
        "", source_.memory.empty() ? "rm" : "r", this, read,
        [](thandle_t, void*, tmsize_t) { return tmsize_t{0}; }, seek, [](thandle_t) { return 0; },
        [](thandle_t self) { return toff_t{static_cast<TiffReader*>(self)->source_.size}; }, map,
        [](thandle_t, void*, toff_t) {}, options.get()));
  }
  TIFF* get() const { return tiff_.get(); }
  // libtiff's first message about the error.
  std::string problem() const { return problem_[0] != '\0' ? problem_ : "a broken TIFF file"; }
  // What is wrong with pixels that could be read in spite of it; "" if nothing is.
  const std::string& damage() const { return damage_; }
  [[noreturn]] void fail_damaged(const std::string& name) const {
    if (no_memory_) fail_memory(name);
    fail_input("{}: damaged image ({})", name, problem());
  }
  template <class T>
  T field(uint32_t tag, T otherwise) const {
    T value = otherwise;
    return TIFFGetFieldDefaulted(tiff_.get(), tag, &value) != 0 ? value : otherwise;
  }

 private:
  static int on_error(TIFF*, void* self, const char*, const char* format, va_list arguments) {
    auto& reader = *static_cast<TiffReader*>(self);
    if (reader.problem_[0] != '\0') return 1;
    std::vsnprintf(reader.problem_, sizeof(reader.problem_), format, arguments);
    for (char& c : reader.problem_)
      if (c == '\n') c = ' ';
    const std::string_view text(reader.problem_);
    const bool is_of_limit = text.find("defined in open options") != text.npos;
    reader.no_memory_ = !is_of_limit && (text.find("llocat") != text.npos ||
                                         text.find("memory") != text.npos || text.starts_with("No space"));
    return 1;
  }
  // Most warnings are about tags. The decoders of JPEG and of faxes warn of data that they replace.
  static int on_warning(TIFF*, void* self, const char* module, const char* format, va_list arguments) {
    auto& reader = *static_cast<TiffReader*>(self);
    const std::string_view decoder(module != nullptr ? module : "");
    if (!reader.damage_.empty() || (decoder != "JPEGLib" && !decoder.starts_with("Fax"))) return 1;
    char text[200] = "";
    std::vsnprintf(text, sizeof(text), format, arguments);
    if (decoder == "JPEGLib") {
      if (const char* what = jpeg_damage(text)) reader.damage_ = damaged_data("JPEG", what);
    } else if (std::string_view(text).starts_with("Premature EO")) {  // of a line or of all
      reader.damage_ = damaged_data("CCITT", kDataMissing);
    }
    return 1;
  }
  static tmsize_t read(thandle_t self, void* to, tmsize_t count) {
    TiffSource& source = static_cast<TiffReader*>(self)->source_;
    if (count <= 0 || source.at >= source.size) return 0;
    const uint64_t wanted = std::min(static_cast<uint64_t>(count), source.size - source.at);
    const Bytes piece = source.pieces != nullptr ? source.pieces->read(source.at, wanted)
                                                 : source.memory.subspan(source.at, wanted);
    std::copy(piece.begin(), piece.end(), static_cast<uint8_t*>(to));
    source.at += piece.size();
    return static_cast<tmsize_t>(piece.size());
  }
  static toff_t seek(thandle_t self, toff_t offset, int from) {
    TiffSource& source = static_cast<TiffReader*>(self)->source_;
    source.at = offset + (from == SEEK_CUR ? source.at : from == SEEK_END ? source.size : 0);
    return source.at;
  }
  // libtiff only reads from it.
  static int map(thandle_t self, void** base, toff_t* size) {
    const TiffSource& source = static_cast<TiffReader*>(self)->source_;
    if (source.memory.empty()) return 0;
    *base = const_cast<uint8_t*>(source.memory.data());
    *size = source.size;
    return 1;
  }

  TiffSource source_;
  char problem_[160] = "";
  std::string damage_;
  bool no_memory_ = false;
  std::unique_ptr<TIFF, decltype(&TIFFClose)> tiff_{nullptr, TIFFClose};
};

// Returns the maximum number of bytes that one byte of the file can decode to.
uint64_t most_of_a_byte(uint16_t compression) {
  switch (compression) {
    case COMPRESSION_NONE:
      return 1;
    case COMPRESSION_PACKBITS:
      return 64;
    case COMPRESSION_LZW:
      return 4096;
    case COMPRESSION_ADOBE_DEFLATE:
    case COMPRESSION_DEFLATE:
      return 1032;
    default:
      return uint64_t{1} << 17;  // one bit of a fax may stand for a row
  }
}

// Throws InputError for kinds that are not supported.
TiffLayout tiff_layout(const TiffReader& tiff, const std::string& name) {
  if (tiff.get() == nullptr) tiff.fail_damaged(name);
  TiffLayout l;
  l.size = {tiff.field<uint32_t>(TIFFTAG_IMAGELENGTH, 0), tiff.field<uint32_t>(TIFFTAG_IMAGEWIDTH, 0)};
  l.orientation = std::clamp<int>(tiff.field<uint16_t>(TIFFTAG_ORIENTATION, 1), 1, 8);
  l.bits = tiff.field<uint16_t>(TIFFTAG_BITSPERSAMPLE, 1);
  l.samples = tiff.field<uint16_t>(TIFFTAG_SAMPLESPERPIXEL, 1);
  l.compression = tiff.field<uint16_t>(TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  l.photometric = tiff.field<uint16_t>(TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  l.is_separate = l.samples > 1 && tiff.field<uint16_t>(TIFFTAG_PLANARCONFIG, 1) == PLANARCONFIG_SEPARATE;
  if (l.photometric == PHOTOMETRIC_YCBCR && l.compression == COMPRESSION_JPEG && !l.is_separate) {
    TIFFSetField(tiff.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    l.photometric = PHOTOMETRIC_RGB;
  }
  uint16_t extras = 0, *kinds = nullptr;
  if (TIFFGetField(tiff.get(), TIFFTAG_EXTRASAMPLES, &extras, &kinds) != 0 && extras > 0)
    l.is_multiplied = kinds[0] == EXTRASAMPLE_ASSOCALPHA && l.samples > l.colours();
  check_tiff_kind(l, tiff.field<uint16_t>(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT), name);
  if (TIFFLastDirectory(tiff.get()) == 0 &&
      (tiff.field<uint32_t>(TIFFTAG_SUBFILETYPE, 0) & FILETYPE_REDUCEDIMAGE) != 0)
    fail_input("{}: the first page of the TIFF file is a thumbnail of another page, expected the picture",
               name);
  return l;
}

// Checks that all strips or tiles are in the file and have enough data for their pixels.
void check_data(const TiffLayout& l, const TiffReader& tiff, uint64_t file, const std::string& name) {
  const auto [height, width] = l.size;
  if (height <= 0 || width <= 0 || width > kMaxImagePixels / height) return;  // other code reports this error
  const bool is_tiled = TIFFIsTiled(tiff.get()) != 0;
  const uint32_t count = is_tiled ? TIFFNumberOfTiles(tiff.get()) : TIFFNumberOfStrips(tiff.get());
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t at = TIFFGetStrileOffset(tiff.get(), i), size = TIFFGetStrileByteCount(tiff.get(), i);
    if (at > file || size > file - at) fail_cut(name, "TIFF");
    if (at == 0 || size == 0) fail_input("{}: damaged image (a TIFF file without some of its pixels)", name);
    bytes += size;
  }
  bytes = std::min(bytes, file);
  const auto pixels = static_cast<uint64_t>(height * width);
  if (bytes < pixels * l.bits * l.samples / 8 / most_of_a_byte(l.compression) / 4)
    fail_empty(name, l.size, bytes);
  if (is_tiled && TIFFTileSize64(tiff.get()) > (uint64_t{64} << 20) + 8 * pixels)
    fail_input("{}: damaged image (a TIFF file with tiles far larger than the image)", name);
}

ImageHeader header_of(const TiffReader& tiff, uint64_t file, const std::string& name) {
  const TiffLayout l = tiff_layout(tiff, name);
  check_data(l, tiff, file, name);
  return {l.size, l.orientation, TIFFLastDirectory(tiff.get()) == 0};
}

std::optional<ImageSize> tiff_size(Bytes, const std::string&) {
  return std::nullopt;
}  // the directory that has it may be at the end

std::optional<ImageHeader> tiff_peek(FilePieces& file, const std::string& name) {
  try {
    return header_of(TiffReader({{}, &file, file.size()}), file.size(), name);
  } catch (const InputError&) {
    return std::nullopt;  // the code that reads all of it reports it
  }
}

bool tiff_looks_whole(Bytes, Bytes, size_t) { return true; }  // tiff_peek checks this

// Checks that the first directory, the values that it points to and the next one are in the file, since
// libtiff tolerates the lack of some of them. Pages after the first one are not checked.
void check_directory(Bytes b, const std::string& name) {
  const bool is_big_endian = b[0] == 'M', is_big = b[is_big_endian ? 3 : 2] == 43;
  auto number = [&](uint64_t at, size_t bytes) {
    if (at > b.size() || bytes > b.size() - at) fail_cut(name, "TIFF");
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i)
      value |= uint64_t{b[at + i]} << 8 * (is_big_endian ? bytes - 1 - i : i);
    return value;
  };
  const size_t word = is_big ? 8 : 4;
  const uint64_t begin = number(word, word), count = number(begin, is_big ? 8 : 2);
  uint64_t at = begin + (is_big ? 8 : 2);
  for (uint64_t i = 0; i < count; ++i, at += 4 + 2 * word) {
    constexpr std::array<uint64_t, 19> kTypeBytes{0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};
    const uint64_t type = number(at + 2, 2), values = number(at + 4, word),
                   size = type < 19 ? kTypeBytes[type] : 0;
    const uint64_t place = number(at + 4 + word, word);
    if (size == 0 || values <= word / size) continue;
    if (values > b.size() || place > b.size() || size * values > b.size() - place) fail_cut(name, "TIFF");
  }
  if (number(at, word) >= b.size()) fail_cut(name, "TIFF");
}

ImageHeader tiff_header(Bytes b, const std::string& name) {
  check_directory(b, name);
  return header_of(TiffReader({b, nullptr, b.size()}), b.size(), name);
}

// Converts rows of samples to RGB.
class TiffColours {
 public:
  TiffColours(const TiffLayout& layout, const TiffReader& tiff, const std::string& name) : l_(layout) {
    if (l_.photometric != PHOTOMETRIC_PALETTE) return;
    uint16_t* maps[3] = {};
    if (TIFFGetField(tiff.get(), TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]) == 0)
      fail_input("{}: damaged image (a TIFF file without its palette)", name);
    // They have 16 bits, but some programs write 8-bit values.
    const size_t count = size_t{1} << l_.bits;
    uint16_t most = 0;
    for (const uint16_t* map : maps) most = std::max(most, *std::max_element(map, map + count));
    for (size_t c = 0; c < 3; ++c)
      for (size_t i = 0; i < count; ++i)
        palette_[c][i] = static_cast<uint8_t>(most > 255 ? maps[c][i] >> 8 : maps[c][i]);
  }

  // Writes `count` pixels; if each sample has its own plane, those of one plane.
  void put(const uint8_t* row, int64_t count, size_t plane, uint8_t* to) const {
    const size_t step = l_.is_separate ? 1 : l_.samples;
    for (int64_t x = 0; x < count; ++x, to += 3) {
      const size_t first = static_cast<size_t>(x) * step;
      if (l_.photometric == PHOTOMETRIC_SEPARATED) {
        std::array<uint8_t, 4> inverted{};
        for (size_t c = 0; c < 4; ++c) inverted[c] = static_cast<uint8_t>(255 - sample(row, first + c));
        cmyk_to_rgb(inverted, to);
      } else if (l_.photometric != PHOTOMETRIC_RGB) {
        one(sample(row, first), to);
      } else if (l_.is_separate) {
        to[plane] = sample(row, first);
      } else {
        for (size_t c = 0; c < 3; ++c) to[c] = sample(row, first + c);
      }
      if (l_.is_multiplied) divide(to, sample(row, first + l_.samples - 1u));
    }
  }

 private:
  // Returns the upper byte of 16 bits.
  uint8_t sample(const uint8_t* row, size_t i) const {
    if (l_.bits == 8) return row[i];
    if (l_.bits == 16) {
      uint16_t value = 0;
      std::memcpy(&value, row + 2 * i, 2);
      return static_cast<uint8_t>(value >> 8);
    }
    const size_t bit = i * l_.bits;
    return static_cast<uint8_t>(row[bit / 8] >> (8 - l_.bits - bit % 8) & ((1 << l_.bits) - 1));
  }
  // Writes a grey value or palette entry.
  void one(uint8_t value, uint8_t* to) const {
    const int most = l_.bits >= 8 ? 255 : (1 << l_.bits) - 1;
    const int grey = (l_.photometric == PHOTOMETRIC_MINISWHITE ? most - value : value) * 255 / most;
    for (size_t c = 0; c < 3; ++c)
      to[c] = l_.photometric == PHOTOMETRIC_PALETTE ? palette_[c][value] : static_cast<uint8_t>(grey);
  }
  static void divide(uint8_t* to, int alpha) {
    for (size_t c = 0; c < 3; ++c)
      to[c] = static_cast<uint8_t>(alpha == 0 ? 0 : std::min(to[c] * 255 / alpha, 255));
  }

  const TiffLayout& l_;
  std::array<std::array<uint8_t, 256>, 3> palette_{};
};

// Reads all planes, or the one with all samples, from strips.
bool read_strips(const TiffReader& tiff, const TiffColours& colours, uint16_t planes, Image& image) {
  std::vector<uint8_t> row(static_cast<size_t>(TIFFScanlineSize64(tiff.get())));
  for (uint16_t plane = 0; plane < planes; ++plane)
    for (int64_t y = 0; y < image.height; ++y) {
      if (TIFFReadScanline(tiff.get(), row.data(), static_cast<uint32_t>(y), plane) != 1) return false;
      colours.put(row.data(), image.width, plane, image.row(y));
    }
  return true;
}

bool read_tiles(const TiffReader& tiff, const TiffColours& colours, uint16_t planes, Image& image) {
  const int64_t width = tiff.field<uint32_t>(TIFFTAG_TILEWIDTH, 0),
                height = tiff.field<uint32_t>(TIFFTAG_TILELENGTH, 0);
  const auto row_bytes = static_cast<int64_t>(TIFFTileRowSize64(tiff.get()));
  std::vector<uint8_t> tile(static_cast<size_t>(TIFFTileSize64(tiff.get())));
  if (width == 0 || height == 0 || tile.empty()) return false;
  for (uint16_t plane = 0; plane < planes; ++plane)
    for (int64_t top = 0; top < image.height; top += height)
      for (int64_t left = 0; left < image.width; left += width) {
        if (TIFFReadTile(tiff.get(), tile.data(), static_cast<uint32_t>(left), static_cast<uint32_t>(top), 0,
                         plane) < 0)
          return false;
        for (int64_t y = 0; y < std::min(height, image.height - top); ++y)
          colours.put(tile.data() + y * row_bytes, std::min(width, image.width - left), plane,
                      image.row(top + y) + 3 * left);
      }
  return true;
}

void tiff_decode(Bytes b, Image& image, const std::string& name, std::string& damage) {
  const TiffReader tiff({b, nullptr, b.size()});
  const TiffLayout l = tiff_layout(tiff, name);
  if (l.size != ImageSize{image.height, image.width})
    fail_input("{}: damaged image (two different sizes)", name);
  const TiffColours colours(l, tiff, name);
  const auto planes = static_cast<uint16_t>(l.is_separate ? l.colours() : 1);
  const bool is_tiled = TIFFIsTiled(tiff.get()) != 0;
  if (!(is_tiled ? read_tiles : read_strips)(tiff, colours, planes, image)) tiff.fail_damaged(name);
  if (!tiff.damage().empty()) damage = tiff.damage();
}

}  // namespace

const ImageCodec kTiffCodec{"TIFF",           is_tiff,     tiff_size,  tiff_peek,
                            tiff_looks_whole, tiff_header, tiff_decode};

}  // namespace saccade
