// WebP through libwebp. https://developers.google.com/speed/webp/docs/riff_container
#include <webp/decode.h>

#include <algorithm>

#include "core/tensor/error.h"
#include "data/images/codecs.h"
#include "data/images/orientation.h"

namespace saccade {
namespace {

bool is_webp(Bytes b) { return b.size() >= 16 && has_text(b, 0, "RIFF") && has_text(b, 8, "WEBP"); }

size_t riff_bytes(Bytes b) { return size_t{8} + little32(b, 4); }

std::optional<ImageSize> webp_size(Bytes head, const std::string&) {
  int width = 0, height = 0;
  if (!WebPGetInfo(head.data(), head.size(), &width, &height)) return std::nullopt;
  return ImageSize{height, width};
}

std::optional<ImageHeader> webp_peek(FilePieces& file, const std::string& name) {
  const Bytes head = file.read(0, 64);
  const std::optional<ImageSize> size = webp_size(head, name);
  if (!size || !is_webp(head)) return std::nullopt;
  ImageHeader header{*size};
  const uint64_t end = std::min<uint64_t>(riff_bytes(head), file.size());
  for (uint64_t at = 12; at + 8 <= end;) {
    const Bytes b = file.read(at, 8);
    if (b.size() < 8 || has_text(b, 0, "ANIM")) return std::nullopt;
    const uint64_t bytes = little32(b, 4);
    if (has_text(b, 0, "EXIF")) {
      header.orientation = exif_orientation(file.read(at + 8, std::min<uint64_t>(bytes, kMaxExifBytes)));
      break;
    }
    at += 8 + bytes + bytes % 2;
  }
  return header;
}

bool webp_looks_whole(Bytes head, Bytes, size_t bytes) { return riff_bytes(head) <= bytes; }

ImageHeader webp_header(Bytes b, const std::string& name) {
  if (riff_bytes(b) > b.size()) fail_cut(name, "WebP");
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(b.data(), b.size(), &features) != VP8_STATUS_OK)
    fail_input("{}: damaged image (a broken WebP header)", name);
  if (features.has_animation) fail_input("{}: an animated WebP file, expected a single picture", name);
  ImageHeader header{{features.height, features.width}};
  // Each chunk has a name, a size and data that is padded to an even size.
  const size_t end = riff_bytes(b);
  for (size_t at = 12; at + 8 <= end;) {
    const size_t size = little32(b, at + 4);
    if (size > end - at - 8) break;
    if (has_text(b, at, "EXIF")) {
      header.orientation = exif_orientation(b.subspan(at + 8, size));
      break;
    }
    at += 8 + size + size % 2;
  }
  return header;
}

void webp_decode(Bytes b, Image& image, const std::string& name, std::string&) {
  WebPDecoderConfig config;
  SACCADE_CHECK(WebPInitDecoderConfig(&config), "[decode_webp] libwebp has another version than its header");
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {image.rgb.data(), static_cast<int>(image.width * 3), image.rgb.size()};
  const VP8StatusCode status = WebPDecode(b.data(), b.size(), &config);
  if (status == VP8_STATUS_OUT_OF_MEMORY) fail_memory(name);
  if (status != VP8_STATUS_OK) fail_input("{}: damaged image (broken or missing WebP data)", name);
}

}  // namespace

const ImageCodec kWebpCodec{"WebP",           is_webp,     webp_size,  webp_peek,
                            webp_looks_whole, webp_header, webp_decode};

}  // namespace saccade
