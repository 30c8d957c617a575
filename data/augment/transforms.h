// Building blocks of the augmentation steps: geometric transforms of samples, and colour changes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "data/augment/pixel_map.h"

namespace saccade {

void flip_horizontal(Sample& sample);
void flip_vertical(Sample& sample);
// Rotates counter-clockwise by `turns` times 90 degrees.
void rotate90(Sample& sample, int turns);
// The window must be inside the image. Boxes are clipped to it; those with no area, or less than
// min_area_ratio of their area, are dropped (0: only those with no area, as in DETR).
void crop(Sample& sample, int64_t y, int64_t x, int64_t height, int64_t width, double min_area_ratio = 0);
// Drops the objects whose boxes have a side of less than this many pixels.
void drop_small_boxes(Sample& sample, double min_side);
void resize(Sample& sample, int64_t height, int64_t width, Filter filter = Filter::kBilinear);
// Places the image at (y, x) of a canvas of one colour, which must contain all of it.
void place_on_canvas(Sample& sample, int64_t height, int64_t width, int64_t y, int64_t x,
                     const std::array<uint8_t, 3>& color = kGrey);
// torchvision's affine() without shear: scales and rotates clockwise about the centre of the image, then
// moves by x and y pixels. The size stays, areas from outside become black, pixels are the nearest ones.
// Boxes are those around the rotated ones, clipped as by crop().
struct AffineChange {
  double degrees = 0, x = 0, y = 0, scale = 1;
};
void move_affine(Sample& sample, const AffineChange& change, double min_area_ratio = 0);
// Applies factors of brightness, contrast and saturation, then a turn of the hue by this fraction of the full
// circle, as one affine map of the colours.
void change_color(Image& image, double brightness, double contrast, double saturation, double hue);

// Equals torchvision's RandomPhotometricDistort on an image of Pillow, byte for byte.
struct PhotometricChange {
  std::optional<double> brightness, contrast, saturation;  // factors
  std::optional<double> hue;                               // a turn by this fraction of the full circle
  bool contrast_first = false;                             // before saturation and hue instead of after them
  std::array<int, 3> channels = {0, 1, 2};                 // the source of each new channel
};
void change_photometry(Image& image, const PhotometricChange& change);

// DETR's size rule (facebookresearch/detr, datasets/transforms.py): the size with short side `short_side`, or
// smaller so that the long side stays within max_long_side (0: no bound). The long side is truncated, as
// there.
ImageSize detr_size(int64_t height, int64_t width, int64_t short_side, int64_t max_long_side);

}  // namespace saccade
