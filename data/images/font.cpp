#include "data/images/draw.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/files/text.h"
#include "core/tensor/error.h"

#define STB_TRUETYPE_IMPLEMENTATION
#define STBTT_STATIC
#include <stb_truetype.h>

// The file of the font, embedded by the assembler.
__asm__(
    ".pushsection .rodata\n"
    ".balign 16\n"
    ".hidden saccade_font\n.global saccade_font\n"
    "saccade_font:\n.incbin \"" SACCADE_FONT
    "\"\n"
    ".popsection\n");
extern "C" const unsigned char saccade_font[];

namespace saccade {
namespace {

const stbtt_fontinfo& font() {
  static const stbtt_fontinfo font = [] {
    stbtt_fontinfo info;
    SACCADE_CHECK(stbtt_InitFont(&info, saccade_font, 0) != 0, "[text] the program's font cannot be read");
    return info;
  }();
  return font;
}

// Returns the next character of a text in UTF-8, '?' for invalid bytes; moves `text` past it.
int next_character(std::string_view& text) {
  const size_t length = utf8_length(text);
  const int character = length > 0 ? static_cast<int>(code_point(text.substr(0, length))) : '?';
  text.remove_prefix(std::max<size_t>(length, 1));
  return character;
}

struct Letter {
  int glyph;
  float x;  // of its origin, pixels
};

// Returns the letters of a line and sets `width` to its width.
std::vector<Letter> set_line(std::string_view text, float scale, float& width) {
  std::vector<Letter> letters;
  width = 0;
  while (!text.empty()) {
    int glyph = stbtt_FindGlyphIndex(&font(), next_character(text));
    if (glyph == 0) glyph = stbtt_FindGlyphIndex(&font(), '?');
    if (!letters.empty())
      width += scale * static_cast<float>(stbtt_GetGlyphKernAdvance(&font(), letters.back().glyph, glyph));
    letters.push_back({glyph, width});
    int advance = 0, bearing = 0;
    stbtt_GetGlyphHMetrics(&font(), glyph, &advance, &bearing);
    width += scale * static_cast<float>(advance);
  }
  return letters;
}

// Metrics of letters, not of the whole font, whose highest accents and deepest strokes are rare.
struct Metrics {
  float scale, ascent;  // pixels per unit of the font; pixels from the top to the base line
};
Metrics metrics_of(int64_t size) {
  int x1 = 0, y1 = 0, x2 = 0, y2 = 0, top = 0, bottom = 0;
  stbtt_GetCodepointBox(&font(), 'd', &x1, &y1, &x2, &top);
  stbtt_GetCodepointBox(&font(), 'p', &x1, &bottom, &x2, &y2);
  const float scale = static_cast<float>(size) / static_cast<float>(top - bottom);
  return {scale, scale * static_cast<float>(top)};
}

}  // namespace

int64_t text_width(std::string_view text, int64_t size) {
  float width = 0;
  set_line(text, metrics_of(size).scale, width);
  return std::llround(std::ceil(width));
}

void draw_text(Image& image, int64_t x, int64_t y, std::string_view text, Rgb color, int64_t size) {
  const Metrics metrics = metrics_of(size);
  const auto base = y + std::llround(metrics.ascent);
  float width = 0;
  for (const Letter& letter : set_line(text, metrics.scale, width)) {
    const float whole = std::floor(letter.x);
    int w = 0, h = 0, left = 0, top = 0;
    unsigned char* coverage = stbtt_GetGlyphBitmapSubpixel(
        &font(), metrics.scale, metrics.scale, letter.x - whole, 0, letter.glyph, &w, &h, &left, &top);
    for (int row = 0; row < h; ++row) {
      const int64_t at_y = base + top + row;
      if (at_y < 0 || at_y >= image.height) continue;
      for (int column = 0; column < w; ++column) {
        const int64_t at_x = x + static_cast<int64_t>(whole) + left + column;
        if (at_x < 0 || at_x >= image.width) continue;
        uint8_t* pixel = image.row(at_y) + at_x * 3;
        const int share = coverage[row * w + column];
        for (size_t c = 0; c < 3; ++c)
          pixel[c] = static_cast<uint8_t>((pixel[c] * (255 - share) + color[c] * share + 127) / 255);
      }
    }
    stbtt_FreeBitmap(coverage, nullptr);
  }
}

}  // namespace saccade
