#include "data/images/tiff_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "core/tensor/error.h"

namespace saccade {
namespace {

struct NamedNumber {
  uint16_t number;
  const char* name;
};

constexpr NamedNumber kOtherCompressions[] = {{COMPRESSION_OJPEG, "JPEG of TIFF 6.0"},
                                              {9, "JBIG"},
                                              {10, "JBIG"},
                                              {COMPRESSION_NEXT, "NeXT"},
                                              {COMPRESSION_CCITTRLEW, "CCITT in words of 16 bits"},
                                              {COMPRESSION_THUNDERSCAN, "ThunderScan"},
                                              {33003, "JPEG 2000"},
                                              {33005, "JPEG 2000"},
                                              {COMPRESSION_JBIG, "JBIG"},
                                              {COMPRESSION_SGILOG, "SGI LogLuv"},
                                              {COMPRESSION_SGILOG24, "SGI LogLuv"},
                                              {COMPRESSION_JP2000, "JPEG 2000"},
                                              {34887, "LERC"},
                                              {34892, "lossy JPEG of DNG"},
                                              {34925, "LZMA"},
                                              {50000, "Zstandard"},
                                              {50001, "WebP"},
                                              {50002, "JPEG XL"}};

constexpr NamedNumber kOtherColours[] = {{PHOTOMETRIC_MASK, "a transparency mask"},
                                         {PHOTOMETRIC_YCBCR, "YCbCr"},
                                         {PHOTOMETRIC_CIELAB, "CIE L*a*b*"},
                                         {9, "ICC L*a*b*"},
                                         {10, "ITU L*a*b*"},
                                         {32803, "raw sensor data"},
                                         {PHOTOMETRIC_LOGL, "CIE Log L"},
                                         {PHOTOMETRIC_LOGLUV, "CIE Log L (u', v')"},
                                         {34892, "raw sensor data"}};

// Returns "34925 (LZMA)", or the number alone if it is unknown.
std::string with_name(uint16_t number, std::span<const NamedNumber> names) {
  const auto it = std::ranges::find(names, number, &NamedNumber::number);
  return it == names.end() ? std::to_string(number) : fmt::format("{} ({})", number, it->name);
}

}  // namespace

void check_tiff_kind(const TiffLayout& l, uint16_t format, const std::string& name) {
  constexpr uint16_t kCompressions[] = {
      COMPRESSION_NONE,     COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3, COMPRESSION_CCITTFAX4,
      COMPRESSION_LZW,      COMPRESSION_JPEG,     COMPRESSION_DEFLATE,   COMPRESSION_ADOBE_DEFLATE,
      COMPRESSION_PACKBITS, COMPRESSION_ZSTD};
  if (std::ranges::find(kCompressions, l.compression) == std::end(kCompressions) ||
      TIFFIsCODECConfigured(l.compression) == 0)
    fail_input(
        "{}: a TIFF file with compression {}, expected none, CCITT, LZW, JPEG, Deflate, PackBits or Zstandard",
        name, with_name(l.compression, kOtherCompressions));
  constexpr uint16_t kColours[] = {PHOTOMETRIC_MINISWHITE, PHOTOMETRIC_MINISBLACK, PHOTOMETRIC_RGB,
                                   PHOTOMETRIC_PALETTE, PHOTOMETRIC_SEPARATED};
  if (std::ranges::find(kColours, l.photometric) == std::end(kColours))
    fail_input("{}: a TIFF file of colour space {}, expected grey, a palette, RGB, CMYK, or YCbCr as JPEG",
               name, with_name(l.photometric, kOtherColours));
  const bool is_palette = l.photometric == PHOTOMETRIC_PALETTE;
  const bool is_small = (l.bits == 1 || l.bits == 2 || l.bits == 4) && l.samples == 1;
  if (!is_small && l.bits != 8 && (l.bits != 16 || is_palette))
    fail_input(
        "{}: a TIFF file of {} bits per sample, expected 8 or 16 (grey also 1, 2, 4; a palette 1, 2, 4, 8)",
        name, l.bits);
  if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
    fail_input("{}: a TIFF file of {} samples, expected unsigned integers", name,
               format == SAMPLEFORMAT_IEEEFP ? "floating-point" : "signed");
  if (l.samples < l.colours() || l.samples > l.colours() + 1)
    fail_input("{}: a TIFF file of {} samples per pixel, expected {} and at most one more for alpha", name,
               l.samples, l.colours());
  if (l.is_separate && (l.colours() == 4 || l.is_multiplied))
    fail_input(
        "{}: a TIFF file with separate planes of CMYK or premultiplied alpha, expected interleaved samples",
        name);
}

}  // namespace saccade
