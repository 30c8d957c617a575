// The augmentations of training and the resizing of evaluation. Boxes follow the pixels exactly. All chance
// comes from one Rng, drawn in a fixed order, so an image's augmentation depends on its key alone.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/tensor/philox.h"
#include "data/images/resize.h"
#include "data/images/sample.h"

namespace saccade {

struct AugmentOptions {
  // First, each with its probability. A rotation is by 90, 180 or 270 degrees with equal chance.
  double horizontal_flip = 0;
  double vertical_flip = 0;
  double rotation90 = 0;

  // Then, with crop_probability, DETR's RandomSizeCrop: the short side is resized to one of crop_short_sides
  // (empty: left as it is), and a window whose width and height are drawn from [crop_min, crop_max] (both cut
  // to the image) is kept.
  double crop_probability = 0;
  std::vector<int64_t> crop_short_sides;
  int64_t crop_min = 384, crop_max = 600;

  // Then the size.
  enum class Resize {
    kNone,
    kShortSide,    // the short side becomes one of short_sides, the long side at most max_long_side (0: no
                   // bound)
    kFixed,        // stretched to fixed_width x fixed_height
    kScaleJitter,  // the largest size that fits the fixed one times U(scale_min, scale_max) is cut or padded
                   // to the fixed size ("large-scale jitter", Ghiasi et al., 2021)
    kRandomArea,   // a window of random area and aspect ratio, stretched to the fixed size (torchvision's
                   // RandomResizedCrop)
    kCenter,       // the short side to the fixed size / center_share, then the centre of the fixed size
                   // (timm's evaluation of classifiers)
  };
  Resize resize = Resize::kNone;
  std::vector<int64_t> short_sides;
  int64_t max_long_side = 0;
  int64_t fixed_width = 0, fixed_height = 0;
  double scale_min = 0.5, scale_max = 2.0;
  // kScaleJitter: width and height are further stretched against each other by up to this factor (1: not at
  // all).
  double max_stretch = 1.0;
  // kScaleJitter: a small image is put at a random place on a canvas of grey (124, 116, 104, the mean colour
  // of ImageNet) that then counts as image, instead of top left with padding that is masked.
  bool pad_as_image = false;

  // kRandomArea: shares of the image's area, and width / height.
  double area_min = 0.08, area_max = 1, ratio_min = 3.0 / 4, ratio_max = 4.0 / 3;
  double center_share = 1;  // kCenter
  Filter filter = Filter::kBilinear;

  // A cut box is dropped when less than this part of its area is left (0: only when nothing is left, as DETR
  // does).
  double min_visible = 0;

  // Then, with color_probability: factors from [1 - v, 1 + v] for brightness, contrast and saturation, a turn
  // of the hue by [-hue, hue] of the full circle. Applied in this order as one affine map of the colours.
  double color_probability = 0;
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;

  // Last: with erase_probability a rectangle of 2 % to a third of the image is filled with normal noise of
  // the mean and deviation that images are normalised by (of RGB in [0, 1]; cut to bytes). Boxes stay.
  double erase_probability = 0;
  std::array<double, 3> noise_mean{0.485, 0.456, 0.406}, noise_std{0.229, 0.224, 0.225};
};

// Throws Error naming the option that is out of range.
void check_augment_options(const AugmentOptions& options);
Sample augment(Sample sample, const AugmentOptions& options, Rng& rng);

// DETR's size rule (facebookresearch/detr, datasets/transforms.py): the size with short side `short_side`, or
// smaller so that the long side stays within max_long_side (0: no bound). The long side is truncated, as
// there.
ImageSize detr_size(int64_t height, int64_t width, int64_t short_side, int64_t max_long_side);

// The steps, each on image, boxes and areas.
void flip_horizontal(Sample& sample);
void flip_vertical(Sample& sample);
// Counter-clockwise, `turns` times 90 degrees.
void rotate90(Sample& sample, int turns);
// The window must lie inside the image. Boxes are cut to it; those with no area, or less than min_visible of
// their area, are dropped.
void crop(Sample& sample, int64_t y, int64_t x, int64_t height, int64_t width, double min_visible = 0);
void resize(Sample& sample, int64_t height, int64_t width, Filter filter = Filter::kBilinear);
// The image at (y, x) of a grey canvas that holds it entirely.
void place_on_canvas(Sample& sample, int64_t height, int64_t width, int64_t y, int64_t x);
// Colours only; hue in turns of the full circle.
void change_color(Image& image, double brightness, double contrast, double saturation, double hue);

}  // namespace saccade
