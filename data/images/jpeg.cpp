// JPEG through libjpeg-turbo, with Pillow's settings (accurate integer DCT, smooth upsampling),
// so that a model sees the pixels that it was trained on: those of Image.open(..).convert("RGB"),
// including CMYK.
#include <cstdio>  // must precede jpeglib.h

#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>
#include <charconv>
#include <csetjmp>
#include <cstring>

#include "core/tensor/error.h"
#include "core/tensor/integers.h"
#include "data/images/codecs.h"
#include "data/images/orientation.h"

namespace saccade {
namespace {

// Each scan of a progressive file covers the whole picture. Encoders write about ten.
constexpr int kMaxScans = 100;

bool is_jpeg(Bytes b) { return b.size() > 3 && b[0] == 0xFF && b[1] == 0xD8 && b[2] == 0xFF; }

// Returns whether the marker starts a frame, whose segment has the size: SOF0 to SOF15 without DHT, JPG, DAC.
bool is_frame(uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

struct JpegSegments {
  std::optional<ImageSize> size;
  bool is_arithmetic = false;
  int orientation = 1;
  int scans = 0;
  bool complete = false;     // the end-of-image marker was seen
  bool is_one_scan = false;  // a sequential picture whose first scan has all components
};

// Skips segments by their length and searches entropy-coded data for the next real marker, up to the frame or
// to the end. An orientation must come before the first scan: it is not searched for after it.
JpegSegments read_segments(Bytes b, bool to_the_end) {
  JpegSegments out;
  bool has_exif = false, is_sequential = false;
  uint8_t components = 0;
  for (size_t i = 2; i + 1 < b.size();) {
    if (b[i] != 0xFF) {  // inside entropy-coded data
      const void* next = std::memchr(b.data() + i, 0xFF, b.size() - i);
      if (next == nullptr) return out;
      i = static_cast<size_t>(static_cast<const uint8_t*>(next) - b.data());
      continue;
    }
    const uint8_t marker = b[i + 1];
    if (marker == 0xD9) {
      out.complete = true;
      return out;
    }
    const bool alone = marker == 0x00 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
    if (marker == 0xFF) {
      ++i;  // fill byte
    } else if (alone) {
      i += 2;
    } else {
      if (i + 3 >= b.size()) return out;
      const size_t length = big16(b, i + 2);
      if (length < 2 || i + 2 + length > b.size()) return out;
      const Bytes segment = b.subspan(i + 4, length - 2);
      if (is_frame(marker) && segment.size() >= 5 && !out.size) {
        out.size = ImageSize{big16(segment, 1), big16(segment, 3)};
        out.is_arithmetic = marker >= 0xC9;
        is_sequential = marker <= 0xC1;
        components = segment.size() > 5 ? segment[5] : 0;
        if (!to_the_end) return out;
      } else if (marker == 0xE1 && out.scans == 0 && !has_exif &&
                 has_text(segment, 0, std::string_view("Exif\0\0", 6))) {
        has_exif = true;
        out.orientation = exif_orientation(segment);
      }
      if (marker == 0xDA && out.scans++ == 0)
        out.is_one_scan = is_sequential && !segment.empty() && segment[0] == components;
      i += 2 + length;
    }
  }
  return out;
}

std::optional<ImageSize> jpeg_size(Bytes head, const std::string&) { return read_segments(head, false).size; }

// Reads up to the first scan: nothing after it is needed.
std::optional<ImageHeader> jpeg_peek(FilePieces& file, const std::string&) {
  constexpr size_t kFrameBytes = 9, kExifBytes = 512;
  ImageHeader out;
  bool has_size = false, has_exif = false;
  for (uint64_t at = 2;;) {
    const Bytes b = file.read(at, kFrameBytes);
    if (b.size() < kFrameBytes || b[0] != 0xFF) return std::nullopt;
    const uint8_t marker = b[1];
    if (marker == 0xDA) break;
    if (marker == 0xD9) return std::nullopt;
    if (marker == 0xFF || marker == 0x01) {
      at += marker == 0xFF ? 1 : 2;
      continue;
    }
    const uint64_t length = big16(b, 2);
    if (length < 2) return std::nullopt;
    if (is_frame(marker) && !has_size) {
      has_size = true;
      out.stored = {big16(b, 5), big16(b, 7)};
    } else if (marker == 0xE1 && !has_exif) {
      // The orientation is at the beginning, before the preview.
      Bytes exif = file.read(at + 4, std::min<uint64_t>(length - 2, kExifBytes));
      has_exif = has_text(exif, 0, std::string_view("Exif\0\0", 6));
      if (has_exif && exif_directory_end(exif) > exif.size()) exif = file.read(at + 4, length - 2);
      if (has_exif) out.orientation = exif_orientation(exif);
    }
    at += 2 + length;
  }
  return has_size ? std::optional(out) : std::nullopt;
}

bool jpeg_looks_whole(Bytes, Bytes tail, size_t) {
  return tail.size() >= 2 && tail[tail.size() - 2] == 0xFF && tail[tail.size() - 1] == 0xD9;
}

bool has_all_pixels(Bytes b, ImageSize size);

ImageHeader jpeg_header(Bytes b, const std::string& name) {
  const JpegSegments segments = read_segments(b, true);
  // The decoder would fill missing parts with grey and continue. Some cameras only omit the last marker,
  // which is no damage.
  const bool may_lack_marker =
      segments.size && segments.is_one_scan && segments.scans == 1 && b.back() != 0xFF;
  // Damaged data may contain bytes that look like a long segment, beyond the last marker.
  const bool has_last_marker = segments.scans > 0 && jpeg_looks_whole(b, b, b.size());
  if (!segments.complete && !has_last_marker && !(may_lack_marker && has_all_pixels(b, *segments.size)))
    fail_cut(name, "JPEG");
  if (!segments.size) fail_input("{}: damaged image (a JPEG file without a frame)", name);
  if (segments.scans > kMaxScans) fail_input("{}: damaged image (more than {} scans)", name, kMaxScans);
  const ImageSize size = *segments.size;
  // Huffman codes have at least one bit for each block of 8 x 8.
  const int64_t blocks = (size.height + 7) / 8 * ((size.width + 7) / 8);
  if (!segments.is_arithmetic && blocks > 8 * static_cast<int64_t>(b.size()))
    fail_empty(name, size, b.size());
  return {size, segments.orientation};
}

// libjpeg's state. libjpeg is C and reports errors by longjmp, so nothing below a jump owns memory.
class JpegReader {
 public:
  JpegReader() {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) {
      auto* reader = static_cast<JpegReader*>(info->client_data);
      info->err->format_message(info, reader->problem_);
      reader->no_memory_ = info->err->msg_code == JERR_OUT_OF_MEMORY;
      std::longjmp(reader->escape_, 1);
    };
    // The end of the file is no damage if the picture is complete.
    errors_.emit_message = [](j_common_ptr info, int level) {
      if (level >= 0 || info->err->msg_code == JWRN_JPEG_EOF) return;
      auto* reader = static_cast<JpegReader*>(info->client_data);
      reader->has_warning_ = true;
      char text[JMSG_LENGTH_MAX] = "";
      info->err->format_message(info, text);
      if (reader->damage_ == nullptr) reader->damage_ = jpeg_damage(text);
    };
    progress_.progress_monitor = [](j_common_ptr info) {
      auto* decoder = reinterpret_cast<j_decompress_ptr>(info);
      if (decoder->input_scan_number <= kMaxScans) return;
      auto* reader = static_cast<JpegReader*>(info->client_data);
      std::snprintf(reader->problem_, sizeof(reader->problem_), "more than %d scans", kMaxScans);
      std::longjmp(reader->escape_, 1);
    };
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader& operator=(JpegReader&&) = delete;

  // Reads up to the first pixels of a picture `reduction` times smaller. If false, problem() has the error.
  bool start(Bytes b, ImageSize size, int reduction) {
    if (setjmp(escape_)) return false;  // NOLINT(cert-err52-cpp): libjpeg's way
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, b.data(), static_cast<unsigned long>(b.size()));
    jpeg_read_header(&info_, TRUE);
    if (info_.image_height != size.height || info_.image_width != size.width) {
      std::strcpy(problem_, "two different sizes");
      return false;
    }
    if (info_.out_color_space != JCS_CMYK) info_.out_color_space = JCS_RGB;
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(reduction);
    jpeg_start_decompress(&info_);
    return true;
  }
  bool is_cmyk() const { return info_.out_color_space == JCS_CMYK; }
  bool read_row(uint8_t* to) {
    if (setjmp(escape_)) return false;  // NOLINT(cert-err52-cpp)
    jpeg_read_scanlines(&info_, &to, 1);
    return true;
  }
  const char* problem() const { return problem_; }
  bool no_memory() const { return no_memory_; }
  bool has_warning() const { return has_warning_; }
  const char* damage() const { return damage_; }  // null if no pixel is wrong

 private:
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf escape_;
  char problem_[JMSG_LENGTH_MAX] = "";
  const char* damage_ = nullptr;
  bool no_memory_ = false, has_warning_ = false;
};

// Returns whether a file without its last marker has all pixels: decodes it as small as possible.
bool has_all_pixels(Bytes b, ImageSize size) {
  constexpr int kReduction = 8;
  if (size.height <= 0 || size.width <= 0 || size.height * size.width > kMaxImagePixels) return false;
  JpegReader reader;
  std::vector<uint8_t> row(static_cast<size_t>(4 * ceil_div(size.width, kReduction)));
  bool ok = reader.start(b, size, kReduction);
  for (int64_t y = 0; ok && y < ceil_div(size.height, kReduction); ++y) ok = reader.read_row(row.data());
  if (reader.no_memory()) fail_memory("a JPEG file");
  return ok && !reader.has_warning();
}

void read_pixels(Bytes b, ImageSize size, int reduction, Image& image, const std::string& name,
                 std::string& damage) {
  JpegReader reader;
  bool ok = reader.start(b, size, reduction);
  std::vector<uint8_t> cmyk(ok && reader.is_cmyk() ? static_cast<size_t>(4 * image.width) : 0);
  for (int64_t y = 0; ok && y < image.height; ++y) {
    ok = reader.read_row(cmyk.empty() ? image.row(y) : cmyk.data());
    if (!cmyk.empty()) cmyk_to_rgb(cmyk, image.row(y));
  }
  if (reader.no_memory()) fail_memory(name);
  if (!ok) fail_input("{}: damaged image ({})", name, reader.problem());
  if (reader.damage() != nullptr) damage = damaged_data("JPEG", reader.damage());
}

void jpeg_decode(Bytes b, Image& image, const std::string& name, std::string& damage) {
  read_pixels(b, {image.height, image.width}, 1, image, name, damage);
}

Image jpeg_decode_reduced(Bytes b, ImageSize size, int reduction, const std::string& name,
                          std::string& damage) {
  Image image(ceil_div(size.height, reduction), ceil_div(size.width, reduction));
  read_pixels(b, size, reduction, image, name, damage);
  return image;
}

}  // namespace

const char* jpeg_damage(std::string_view warning) {
  constexpr int64_t kPadding = 8;  // some cameras write a few bytes after the data
  constexpr std::string_view kBegin = "Corrupt JPEG data: ";
  if (warning.starts_with("Inconsistent progression")) return "its scans do not fit together";
  if (!warning.starts_with(kBegin)) return nullptr;  // odd headers
  warning.remove_prefix(kBegin.size());
  if (warning.starts_with("premature end")) return kDataMissing;
  if (warning.starts_with("bad Huffman code") || warning.starts_with("bad arithmetic code"))
    return "some of it cannot be decoded";
  if (warning.starts_with("found marker")) return "its parts are not in their order";
  int64_t extra = 0;
  std::from_chars(warning.data(), warning.data() + warning.size(), extra);
  return extra > kPadding ? "there is too much of it" : nullptr;
}

void cmyk_to_rgb(Bytes cmyk, uint8_t* rgb) {
  for (size_t i = 0; i < cmyk.size() / 4; ++i) {
    const uint8_t* in = cmyk.data() + 4 * i;
    int light = in[3];
    for (size_t c = 0; c < 3; ++c) {
      int product = (255 - in[c]) * light + 128;
      rgb[3 * i + c] = static_cast<uint8_t>(light - ((product + (product >> 8)) >> 8));
    }
  }
}

const ImageCodec kJpegCodec{"JPEG",           is_jpeg,     jpeg_size,   jpeg_peek,
                            jpeg_looks_whole, jpeg_header, jpeg_decode, jpeg_decode_reduced};

}  // namespace saccade
