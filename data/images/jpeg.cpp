#include "data/images/jpeg.h"

#include "core/tensor/error.h"

#ifdef SACCADE_LIBJPEG_TURBO
#include <turbojpeg.h>

#include <memory>
#endif

namespace saccade {

bool is_jpeg(std::span<const uint8_t> bytes) {
  return bytes.size() > 3 && bytes[0] == 0xFF && bytes[1] == 0xD8;
}

#ifdef SACCADE_LIBJPEG_TURBO

namespace {

// Pillow's ImagingConvert from CMYK to RGB; `cmyk` is stored inverted, as Adobe's programs write it.
void cmyk_to_rgb(const std::vector<uint8_t>& cmyk, std::vector<uint8_t>& rgb) {
  for (size_t i = 0; i < cmyk.size() / 4; ++i) {
    const uint8_t* in = cmyk.data() + 4 * i;
    int light = in[3];
    for (size_t c = 0; c < 3; ++c) {
      int product = (255 - in[c]) * light + 128;
      rgb[3 * i + c] = static_cast<uint8_t>(light - ((product + (product >> 8)) >> 8));
    }
  }
}

}  // namespace

bool has_libjpeg_turbo() { return true; }

std::optional<Image> decode_jpeg(std::span<const uint8_t> bytes, const ImageSize& size,
                                 const std::string& name) {
  std::unique_ptr<void, int (*)(tjhandle)> decoder(tjInitDecompress(), &tjDestroy);
  SACCADE_CHECK(decoder != nullptr, "[decode_jpeg] {}", tjGetErrorStr2(nullptr));
  auto length = static_cast<unsigned long>(bytes.size());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (tjDecompressHeader3(decoder.get(), bytes.data(), length, &width, &height, &subsampling, &colours) != 0)
    return std::nullopt;
  if (width != size.width || height != size.height) return std::nullopt;
  Image image(height, width);
  bool four = colours == TJCS_CMYK || colours == TJCS_YCCK;
  std::vector<uint8_t> cmyk(four ? static_cast<size_t>(image.height * image.width * 4) : 0);
  int status =
      tjDecompress2(decoder.get(), bytes.data(), length, four ? cmyk.data() : image.rgb.data(), width, 0,
                    height, four ? TJPF_CMYK : TJPF_RGB, TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS);
  // Warnings concern minor damage that every viewer ignores, Pillow included.
  if (status != 0 && tjGetErrorCode(decoder.get()) == TJERR_FATAL)
    fail_input("{}: damaged image ({})", name, tjGetErrorStr2(decoder.get()));
  if (four) cmyk_to_rgb(cmyk, image.rgb);
  return image;
}

#else

bool has_libjpeg_turbo() { return false; }

std::optional<Image> decode_jpeg(std::span<const uint8_t>, const ImageSize&, const std::string&) {
  return std::nullopt;
}

#endif

}  // namespace saccade
