// A map that moves the pixels of an image, and with them everything that the image contains.
#pragma once

#include <array>
#include <optional>

#include "data/images/resize.h"
#include "data/images/sample.h"

namespace saccade {

// Turns clockwise and scales about a centre, then moves. A negative scale mirrors. With a rotation, the two
// scales are equal.
struct PixelMap {
  ImageSize size;  // of the new image
  double x = 0, y = 0, scale_x = 1, scale_y = 1, cos = 1, sin = 0, centre_x = 0, centre_y = 0;
  // The interpolation for a scaled image. If unset, the nearest pixels are used, as always for masks and
  // label maps.
  std::optional<Filter> filter = {};
  // If set, clips boxes to the new image and drops those without area or with less than this fraction of it.
  std::optional<double> min_area_ratio = {};

  // Returns the box around its moved corners, not clipped.
  Box operator()(const Box& box) const;
  Mask operator()(const Mask& mask) const;
};

inline constexpr std::array<uint8_t, 3> kGrey = {124, 116, 104};  // the mean colour of ImageNet
inline constexpr std::array<uint8_t, 3> kBlack = {0, 0, 0};

// Draws the image on `canvas`, which has the map's size, and adds its objects. An object's area becomes that
// of its mask; without a mask, it becomes that of its box if boxes are clipped (as in DETR). An object whose
// mask has no pixel left is dropped.
void paste(const Sample& sample, const PixelMap& map, Sample& canvas);
// Does the same on a canvas of this colour, which replaces the sample.
void move(Sample& sample, const PixelMap& map, const std::array<uint8_t, 3>& color = kBlack);

}  // namespace saccade
