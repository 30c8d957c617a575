#include "data/augment/transforms.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/tensor/error.h"

namespace saccade {

namespace {

ImageSize size_of(const Sample& sample) { return {sample.image.height, sample.image.width}; }

}  // namespace

void flip_horizontal(Sample& sample) {
  const ImageSize size = size_of(sample);
  move(sample, {.size = size, .x = static_cast<double>(size.width), .scale_x = -1});
}

void flip_vertical(Sample& sample) {
  const ImageSize size = size_of(sample);
  move(sample, {.size = size, .y = static_cast<double>(size.height), .scale_y = -1});
}

void rotate90(Sample& sample, int turns) {
  if ((turns & 2) != 0) {
    flip_horizontal(sample);
    flip_vertical(sample);
  }
  if ((turns & 1) == 0) return;
  const auto [height, width] = size_of(sample);
  move(sample, {.size = {width, height}, .y = static_cast<double>(width), .cos = 0, .sin = -1});
}

void crop(Sample& sample, int64_t y, int64_t x, int64_t height, int64_t width, double min_area_ratio) {
  const Image& in = sample.image;
  SACCADE_CHECK(
      y >= 0 && x >= 0 && height > 0 && width > 0 && y + height <= in.height && x + width <= in.width,
      "[crop] window at ({}, {}) of {} x {} does not lie in an image of {} x {}", x, y, width, height,
      in.width, in.height);
  move(sample, {.size = {height, width},
                .x = -static_cast<double>(x),
                .y = -static_cast<double>(y),
                .min_area_ratio = min_area_ratio});
}

void drop_small_boxes(Sample& sample, double min_side) {
  std::erase_if(sample.instances,
                [&](const Instance& i) { return i.box.width() < min_side || i.box.height() < min_side; });
}

void resize(Sample& sample, int64_t height, int64_t width, Filter filter) {
  const ImageSize old = size_of(sample);
  if (ImageSize{height, width} == old) return;
  move(sample, {.size = {height, width},
                .scale_x = static_cast<double>(width) / static_cast<double>(old.width),
                .scale_y = static_cast<double>(height) / static_cast<double>(old.height),
                .filter = filter});
}

void place_on_canvas(Sample& sample, int64_t height, int64_t width, int64_t y, int64_t x,
                     const std::array<uint8_t, 3>& color) {
  const Image& in = sample.image;
  SACCADE_CHECK(y >= 0 && x >= 0 && y + in.height <= height && x + in.width <= width,
                "[place_on_canvas] {} x {} pixels at ({}, {}) do not fit {} x {}", in.width, in.height, x, y,
                width, height);
  move(sample, {.size = {height, width}, .x = static_cast<double>(x), .y = static_cast<double>(y)}, color);
}

void move_affine(Sample& sample, const AffineChange& change, double min_area_ratio) {
  const double radians = change.degrees * std::numbers::pi / 180;
  const ImageSize size = size_of(sample);
  move(sample, {.size = size,
                .x = change.x,
                .y = change.y,
                .scale_x = change.scale,
                .scale_y = change.scale,
                .cos = std::cos(radians),
                .sin = std::sin(radians),
                .centre_x = static_cast<double>(size.width) / 2,
                .centre_y = static_cast<double>(size.height) / 2,
                .min_area_ratio = min_area_ratio});
}

ImageSize detr_size(int64_t height, int64_t width, int64_t short_side, int64_t max_long_side) {
  double shorter = static_cast<double>(std::min(height, width)),
         longer = static_cast<double>(std::max(height, width));
  int64_t size = short_side;
  if (max_long_side > 0 &&
      longer / shorter * static_cast<double>(size) > static_cast<double>(max_long_side)) {
    // Python's round() rounds ties to even, like nearbyint.
    size = std::max<int64_t>(
        1, static_cast<int64_t>(std::nearbyint(static_cast<double>(max_long_side) * shorter / longer)));
  }
  if (std::min(height, width) == size) return {height, width};
  if (width < height) return {size * height / width, size};
  return {size, size * width / height};
}

}  // namespace saccade
