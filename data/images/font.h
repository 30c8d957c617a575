// Text on pictures: DejaVu Sans, which is part of the program, drawn with stb_truetype.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "data/images/image.h"

namespace saccade {

using Rgb = std::array<uint8_t, 3>;

// UTF-8; what is none, and characters that the font lacks, show as '?'. `size`: pixels from the tallest
// letter's top to the descenders' end, at least 1. (x, y): the text's top left corner, which may lie outside
// the picture; what does is cut.
void draw_text(Image& image, int64_t x, int64_t y, std::string_view text, Rgb color, int64_t size);
int64_t text_width(std::string_view text, int64_t size);  // pixels, rounded up

}  // namespace saccade
