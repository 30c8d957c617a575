// What the steps of augmentation are made of; each changes image, boxes and areas.
#pragma once

#include <cstdint>

#include "data/images/resize.h"
#include "data/images/sample.h"

namespace saccade {

void flip_horizontal(Sample& sample);
void flip_vertical(Sample& sample);
// Counter-clockwise, `turns` times 90 degrees.
void rotate90(Sample& sample, int turns);
// The window must lie inside the image. Boxes are cut to it; those with no area, or less than min_visible of
// their area, are dropped (0: only those with no area, as DETR does).
void crop(Sample& sample, int64_t y, int64_t x, int64_t height, int64_t width, double min_visible = 0);
void resize(Sample& sample, int64_t height, int64_t width, Filter filter = Filter::kBilinear);
// The image at (y, x) of a canvas of grey (124, 116, 104, the mean colour of ImageNet) that holds it entirely.
void place_on_canvas(Sample& sample, int64_t height, int64_t width, int64_t y, int64_t x);
// Factors of brightness, contrast and saturation, then a turn of the hue by this part of the full circle, as one affine
// map of the colours.
void change_color(Image& image, double brightness, double contrast, double saturation, double hue);

// DETR's size rule (facebookresearch/detr, datasets/transforms.py): the size with short side `short_side`, or
// smaller so that the long side stays within max_long_side (0: no bound). The long side is truncated, as
// there.
ImageSize detr_size(int64_t height, int64_t width, int64_t short_side, int64_t max_long_side);

}  // namespace saccade
