// Where a step of augmentation moves the pixels of an image, and with them all that the image holds.
#pragma once

#include <array>
#include <optional>

#include "data/images/resize.h"
#include "data/images/sample.h"

namespace saccade {

// Turns clockwise and scales about a centre, then moves. A negative scale mirrors. Where anything is turned,
// the two scales are equal.
struct PixelMap {
  ImageSize size;  // of the new image
  double x = 0, y = 0, scale_x = 1, scale_y = 1, cos = 1, sin = 0, centre_x = 0, centre_y = 0;
  // How the pixels of a scaled image are blended. Without, they are the nearest; those of masks and label
  // maps always are.
  std::optional<Filter> filter = {};
  // With it, boxes are cut to the new image, and those go that keep no area, or less than this part of it.
  std::optional<double> min_area_ratio = {};

  // Around where its corners go, not cut.
  Box operator()(const Box& box) const;
  Mask operator()(const Mask& mask) const;
};

inline constexpr std::array<uint8_t, 3> kGrey = {124, 116, 104};  // the mean colour of ImageNet
inline constexpr std::array<uint8_t, 3> kBlack = {0, 0, 0};

// Draws the image on that of `canvas`, which has the map's size, and adds its objects. The area of an object
// becomes that of its mask, where it has one, else of its box, where boxes are cut (as in DETR). An object
// goes of whose mask no pixel is left.
void paste(const Sample& sample, const PixelMap& map, Sample& canvas);
// The same on a canvas of this colour, which the sample becomes.
void move(Sample& sample, const PixelMap& map, const std::array<uint8_t, 3>& color = kBlack);

}  // namespace saccade
