// Draws detections and attention points on a picture, and cuts out objects.
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

// UTF-8; invalid bytes and characters that the font lacks appear as '?'. `size`: pixels from the top of the
// tallest letter to the bottom of the descenders, at least 1. (x, y): the text's top left corner, which may
// be outside the picture; the text is clipped to it.
void draw_text(Image& image, int64_t x, int64_t y, std::string_view text, Rgb color, int64_t size);
int64_t text_width(std::string_view text, int64_t size);  // pixels, rounded up

struct DrawnPoint {
  double x = 0, y = 0;  // pixels
  double weight = 1;    // [0, 1], the opacity
  int64_t label = 0;    // determines the colour
};

// Sizes in pixels.
struct DrawStyle {
  std::optional<int64_t> line_width = {};   // if unset, grows with the picture
  std::optional<int64_t> letter_size = {};  // likewise; 0 for no names and scores
};

// Neighbouring labels get clearly different colours.
Rgb color_of_label(int64_t label);
// A palette for a PNG file of values: 256 colours 0xRRGGBB; each label's value has the label's colour,
// the others are black.
std::vector<uint32_t> label_palette(const std::vector<int64_t>& values);
// Blends the colour into the mask's pixels and draws their outline. Throws Error for a mask of another size
// than the image.
void draw_mask(Image& image, const Mask& mask, Rgb color);
// Draws masks and outlines first, then "name score" tags in order of descending importance: a tag goes above
// its box, below it or inside it, where it covers no earlier tag. A label without a name is written as its
// number, a negative score (ground truth) is omitted; parts outside the picture are clipped. `tracks`: the
// number of each object in its video, which is written before its name and determines its colour; empty if
// there are none.
void draw_boxes(Image& image, const std::vector<Instance>& boxes, const std::vector<std::string>& names,
                const DrawStyle& style = {}, const std::vector<int64_t>& tracks = {});
// Returns a PNG file of the image in which the mask's pixels are opaque and the others transparent.
// Throws Error for a mask of another size.
std::vector<uint8_t> encode_png(const Image& image, const Mask& opaque);
// Draws filled discs.
void draw_points(Image& image, const std::vector<DrawnPoint>& points, double radius);

}  // namespace saccade
