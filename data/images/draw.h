// Drawing detections, and where the attention looked, on a picture; cutting an object out.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types/instance.h"
#include "data/images/image.h"

namespace saccade {

// Text on pictures: DejaVu Sans, which is part of the program, drawn with stb_truetype.
using Rgb = std::array<uint8_t, 3>;

// UTF-8; what is none, and characters that the font lacks, show as '?'. `size`: pixels from the tallest
// letter's top to the descenders' end, at least 1. (x, y): the text's top left corner, which may be outside
// the picture; what does is cut.
void draw_text(Image& image, int64_t x, int64_t y, std::string_view text, Rgb color, int64_t size);
int64_t text_width(std::string_view text, int64_t size);  // pixels, rounded up

struct DrawnPoint {
  double x = 0, y = 0;  // pixels
  double weight = 1;    // [0, 1], the opacity
  int64_t label = 0;    // which colour
};

// In pixels.
struct DrawStyle {
  std::optional<int64_t> line_width = {};   // unset: grows with the picture
  std::optional<int64_t> letter_size = {};  // likewise; 0: no names and scores
};

// Neighbouring labels get clearly different colours.
Rgb color_of_label(int64_t label);
// For a PNG file of values: 256 colours 0xRRGGBB, of each label's value that of the label,
// of the others black.
std::vector<uint32_t> label_palette(const std::vector<int64_t>& values);
// Lets the colour shine through on the mask's pixels and draws their outline. Throws Error for a mask of
// another size than the image.
void draw_mask(Image& image, const Mask& mask, Rgb color);
// Masks and outlines first, then "name score" tags in order of falling importance: a tag goes above its box,
// below it or inside it, where it covers no tag drawn before. A
// label without a name is written as its number, a negative score (ground truth) not at all; parts outside
// the picture are cut. `tracks`: the number of each object in its video, which is written before its name and
// chooses its colour; empty: none.
void draw_boxes(Image& image, const std::vector<Instance>& boxes, const std::vector<std::string>& names,
                const DrawStyle& style = {}, const std::vector<int64_t>& tracks = {});
// The bytes of a PNG file of the image, of which the mask's pixels are opaque and the others transparent.
// Throws Error for a mask of another size.
std::vector<uint8_t> encode_png(const Image& image, const Mask& opaque);
// Filled discs.
void draw_points(Image& image, const std::vector<DrawnPoint>& points, double radius);

}  // namespace saccade
