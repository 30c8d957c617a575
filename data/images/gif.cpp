// The first picture of a GIF file. https://www.w3.org/Graphics/GIF/spec-gif89a.txt
#include <algorithm>
#include <array>

#include "core/tensor/error.h"
#include "data/images/codecs.h"

namespace saccade {
namespace {

constexpr size_t kScreenHeader = 13, kFrameHeader = 10;

bool is_gif(Bytes b) { return has_text(b, 0, "GIF87a") || has_text(b, 0, "GIF89a"); }

// The place of a colour table; there is none if count is 0.
struct GifColours {
  size_t at = 0, count = 0;
  size_t end() const { return at + 3 * count; }
};

struct GifLayout {
  ImageSize size;  // of the screen, enlarged by the first frame if that extends beyond it
  int64_t left = 0, top = 0, width = 0, height = 0;  // of the first frame
  GifColours colours;
  int transparent = -1;  // colour index of transparent pixels
  bool is_interlaced = false;
  size_t code_bits = 0, data = 0;  // width of the smallest codes; start of the data blocks
};

GifColours colours_at(size_t at, uint8_t flags) {
  return {at, (flags & 0x80) != 0 ? size_t{2} << (flags & 7) : 0};
}

// Returns the place after data blocks, each a size and as many bytes, and an empty one;
// b.size() if they do not end.
size_t behind_blocks(Bytes b, size_t at) {
  while (at < b.size() && b[at] != 0) at += size_t{1} + b[at];
  return std::min(at + 1, b.size());
}

// Reads the part before the pixels of the first frame; nothing if the bytes end before that. Throws
// InputError if it is no such file.
std::optional<GifLayout> gif_layout(Bytes b, const std::string& name) {
  if (b.size() < kScreenHeader) return std::nullopt;
  GifLayout l;
  const GifColours common = colours_at(kScreenHeader, b[10]);
  for (size_t at = common.end(); at < b.size();) {
    if (b[at] == '!') {
      // Graphic control: whether a colour is transparent, and which one.
      if (at + 7 < b.size() && b[at + 1] == 0xF9 && b[at + 2] == 4)
        l.transparent = (b[at + 3] & 1) != 0 ? b[at + 6] : -1;
      at = behind_blocks(b, at + 2);
      continue;
    }
    if (b[at] == ';') fail_input("{}: damaged image (a GIF file without a picture)", name);
    if (b[at] != ',') fail_input("{}: damaged image (a GIF file with an unknown block)", name);
    if (at + kFrameHeader >= b.size()) return std::nullopt;
    l.left = little16(b, at + 1), l.top = little16(b, at + 3);
    l.width = little16(b, at + 5), l.height = little16(b, at + 7);
    l.size = {std::max<int64_t>(little16(b, 8), l.top + l.height),
              std::max<int64_t>(little16(b, 6), l.left + l.width)};
    l.is_interlaced = (b[at + 9] & 0x40) != 0;
    l.colours = colours_at(at + kFrameHeader, b[at + 9]);
    const size_t pixels = l.colours.end();
    if (l.colours.count == 0) l.colours = common;
    if (pixels >= b.size()) return std::nullopt;
    l.code_bits = b[pixels];
    l.data = pixels + 1;
    if (l.code_bits < 1 || l.code_bits > 8)
      fail_input("{}: damaged image (a GIF file with codes of {} bits)", name, l.code_bits);
    return l;
  }
  return std::nullopt;
}

std::optional<ImageSize> gif_size(Bytes head, const std::string& name) {
  const std::optional<GifLayout> l = gif_layout(head, name);
  return l ? std::optional(l->size) : std::nullopt;
}

std::optional<ImageHeader> gif_peek(FilePieces& file, const std::string& name) {
  const std::optional<ImageSize> size = gif_size(file.read(0, uint64_t{16} << 10), name);
  return size ? std::optional(ImageHeader{*size}) : std::nullopt;
}

// Only a full read tells whether blocks follow each other to the end and whether there are more frames.
bool gif_looks_whole(Bytes, Bytes, size_t) { return false; }

ImageHeader gif_header(Bytes b, const std::string& name) {
  const std::optional<GifLayout> l = gif_layout(b, name);
  if (!l) fail_cut(name, "GIF");
  ImageHeader header{l->size};
  size_t at = behind_blocks(b, l->data);
  const size_t bytes = at - l->data;
  // Each byte holds less than one code of 9 or more bits,
  // and a code stands for at most 4,096 pixels.
  if (l->height > 0 && l->width > static_cast<int64_t>(bytes) * 4096 / l->height)
    fail_empty(name, l->size, bytes);
  while (at < b.size() && b[at] != ';') {
    if (b[at] == ',') {
      if (at + kFrameHeader >= b.size()) fail_cut(name, "GIF");
      header.has_more = true;
      at = behind_blocks(b, colours_at(at + kFrameHeader, b[at + 9]).end() + 1);
    } else if (b[at] == '!') {
      at = behind_blocks(b, at + 2);
    } else {
      fail_input("{}: damaged image (a GIF file with an unknown block)", name);
    }
  }
  if (at >= b.size()) fail_cut(name, "GIF");
  return header;
}

// Reads the codes of a frame: LZW of 3 to 12 bits in blocks of bytes, the lowest bit first.
class GifCodes {
 public:
  GifCodes(Bytes file, size_t at) : file_(file), at_(at) {}
  // Returns -1 if there are no more.
  int next(size_t bits) {
    while (count_ < bits) {
      if (left_ == 0) {
        if (at_ >= file_.size() || file_[at_] == 0) return -1;
        left_ = file_[at_++];
      }
      if (at_ >= file_.size()) return -1;
      bits_ |= uint32_t{file_[at_++]} << count_;
      count_ += 8;
      --left_;
    }
    const int code = static_cast<int>(bits_ & ((1u << bits) - 1));
    bits_ >>= bits;
    count_ -= bits;
    return code;
  }

 private:
  Bytes file_;
  size_t at_, left_ = 0, count_ = 0;
  uint32_t bits_ = 0;
};

// Fills `pixels` with palette indices; returns false if the codes are invalid or end too early.
bool unpack(GifCodes codes, size_t code_bits, std::vector<uint8_t>& pixels) {
  constexpr int kMaxCodes = 4096;
  const int clear = 1 << code_bits;
  // A code stands for the text of another code plus one byte.
  std::array<uint16_t, kMaxCodes> before{};
  std::array<uint8_t, kMaxCodes> last{}, text{};
  for (int i = 0; i < clear; ++i) last[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
  size_t bits = code_bits + 1, filled = 0;
  int next = clear + 2, previous = -1;
  uint8_t first = 0;  // first byte of the previous text
  while (filled < pixels.size()) {
    const int code = codes.next(bits);
    if (code < 0 || code == clear + 1) return false;
    if (code == clear) {
      bits = code_bits + 1;
      next = clear + 2;
      previous = -1;
      continue;
    }
    if (code > next || (code == next && previous < 0) || (previous < 0 && code > clear)) return false;
    size_t length = 0;
    int at = code;
    if (code == next) {  // the previous text and its own first byte
      text[length++] = first;
      at = previous;
    }
    for (; at >= clear; at = before[static_cast<size_t>(at)]) text[length++] = last[static_cast<size_t>(at)];
    first = last[static_cast<size_t>(at)];
    text[length++] = first;
    while (length > 0 && filled < pixels.size()) pixels[filled++] = text[--length];
    if (previous >= 0 && next < kMaxCodes) {
      before[static_cast<size_t>(next)] = static_cast<uint16_t>(previous);
      last[static_cast<size_t>(next)] = first;
      if (++next == 1 << bits && bits < 12) ++bits;
    }
    previous = code;
  }
  return true;
}

void gif_decode(Bytes b, Image& image, const std::string& name, std::string&) {
  const std::optional<GifLayout> l = gif_layout(b, name);
  if (!l) fail_cut(name, "GIF");
  auto put = [&](uint8_t* to, size_t index) {
    if (l->colours.count == 0) {  // grey
      std::fill_n(to, 3, static_cast<uint8_t>(index));
      return;
    }
    if (index >= l->colours.count)
      fail_input("{}: damaged image (colour {}, but the palette has {})", name, index, l->colours.count);
    std::copy_n(b.data() + l->colours.at + 3 * index, 3, to);
  };
  if (l->width < image.width || l->height < image.height) {
    std::array<uint8_t, 3> ground{};
    if (l->transparent < static_cast<int>(l->colours.count))
      put(ground.data(), static_cast<size_t>(std::max(l->transparent, 0)));
    for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = ground[i % 3];
  }
  std::vector<uint8_t> pixels(static_cast<size_t>(l->width * l->height));
  if (!unpack(GifCodes(b, l->data), l->code_bits, pixels))
    fail_input("{}: damaged image (broken or missing GIF data)", name);
  // An interlaced picture has each 8th row first, then those in between, and so on.
  const uint8_t* from = pixels.data();
  auto put_row = [&](int64_t y) {
    uint8_t* to = image.row(l->top + y) + 3 * l->left;
    for (int64_t x = 0; x < l->width; ++x) put(to + 3 * x, *from++);
  };
  if (!l->is_interlaced)
    for (int64_t y = 0; y < l->height; ++y) put_row(y);
  else
    for (const auto& [begin, step] : {std::pair{0, 8}, {4, 8}, {2, 4}, {1, 2}})
      for (int64_t y = begin; y < l->height; y += step) put_row(y);
}

}  // namespace

const ImageCodec kGifCodec{"GIF", is_gif, gif_size, gif_peek, gif_looks_whole, gif_header, gif_decode};

}  // namespace saccade
