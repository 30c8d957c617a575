#include "data/augment/transforms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "core/tensor/error.h"

namespace saccade {

void flip_horizontal(Sample& sample) {
  Image& image = sample.image;
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* a = image.row(y);
    uint8_t* b = a + (image.width - 1) * 3;
    for (; a < b; a += 3, b -= 3) {
      for (int k = 0; k < 3; ++k) std::swap(a[k], b[k]);
    }
  }
  double w = static_cast<double>(image.width);
  for (SampleBox& box : sample.boxes) {
    double x1 = w - box.x2;
    box.x2 = w - box.x1;
    box.x1 = x1;
  }
}

void flip_vertical(Sample& sample) {
  Image& image = sample.image;
  for (int64_t y = 0; y < image.height / 2; ++y) {
    std::swap_ranges(image.row(y), image.row(y) + image.width * 3, image.row(image.height - 1 - y));
  }
  double h = static_cast<double>(image.height);
  for (SampleBox& box : sample.boxes) {
    double y1 = h - box.y2;
    box.y2 = h - box.y1;
    box.y1 = y1;
  }
}

void rotate90(Sample& sample, int turns) {
  turns &= 3;
  if (turns == 2) {
    flip_horizontal(sample);
    flip_vertical(sample);
    return;
  }
  if (turns == 3) rotate90(sample, 2);
  if (turns == 0) return;
  const Image& in = sample.image;
  Image out(in.width, in.height);
  for (int64_t y = 0; y < out.height; ++y) {
    uint8_t* dst = out.row(y);
    for (int64_t x = 0; x < out.width; ++x) std::memcpy(dst + x * 3, in.row(x) + (in.width - 1 - y) * 3, 3);
  }
  double w = static_cast<double>(in.width);
  for (SampleBox& box : sample.boxes) {
    SampleBox old = box;
    box.x1 = old.y1;
    box.x2 = old.y2;
    box.y1 = w - old.x2;
    box.y2 = w - old.x1;
  }
  sample.image = std::move(out);
}

void crop(Sample& sample, int64_t y, int64_t x, int64_t height, int64_t width, double min_visible) {
  const Image& in = sample.image;
  SACCADE_CHECK(
      y >= 0 && x >= 0 && height > 0 && width > 0 && y + height <= in.height && x + width <= in.width,
      "[crop] window at ({}, {}) of {} x {} does not lie in an image of {} x {}", x, y, width, height,
      in.width, in.height);
  Image out(height, width);
  for (int64_t i = 0; i < height; ++i) {
    std::memcpy(out.row(i), in.row(y + i) + x * 3, static_cast<size_t>(width * 3));
  }
  sample.image = std::move(out);
  double dx = static_cast<double>(x), dy = static_cast<double>(y);
  for (SampleBox& box : sample.boxes) {
    box.x1 -= dx;
    box.x2 -= dx;
    box.y1 -= dy;
    box.y2 -= dy;
  }
  clip_boxes(sample, min_visible);
}

void clip_boxes(Sample& sample, double min_visible) {
  double w = static_cast<double>(sample.image.width), h = static_cast<double>(sample.image.height);
  std::vector<SampleBox> kept;
  for (SampleBox box : sample.boxes) {
    double before = (box.x2 - box.x1) * (box.y2 - box.y1);
    box.x1 = std::clamp(box.x1, 0.0, w);
    box.x2 = std::clamp(box.x2, 0.0, w);
    box.y1 = std::clamp(box.y1, 0.0, h);
    box.y2 = std::clamp(box.y2, 0.0, h);
    if (box.x2 <= box.x1 || box.y2 <= box.y1) continue;
    double after = (box.x2 - box.x1) * (box.y2 - box.y1);
    if (after < min_visible * before) continue;
    box.area = after;  // as DETR: the object's own area is unknown once its box is cut
    kept.push_back(box);
  }
  sample.boxes = std::move(kept);
}

void drop_small_boxes(Sample& sample, double min_side) {
  std::erase_if(sample.boxes,
                [&](const SampleBox& b) { return b.x2 - b.x1 < min_side || b.y2 - b.y1 < min_side; });
}

void resize(Sample& sample, int64_t height, int64_t width, Filter filter) {
  if (height == sample.image.height && width == sample.image.width) return;
  double rx = static_cast<double>(width) / static_cast<double>(sample.image.width);
  double ry = static_cast<double>(height) / static_cast<double>(sample.image.height);
  sample.image = resize_image(sample.image, height, width, filter);
  for (SampleBox& box : sample.boxes) {
    box.x1 *= rx;
    box.x2 *= rx;
    box.y1 *= ry;
    box.y2 *= ry;
    box.area *= rx * ry;
  }
}

void place_on_canvas(Sample& sample, int64_t height, int64_t width, int64_t y, int64_t x,
                     const std::array<uint8_t, 3>& color) {
  const Image& in = sample.image;
  SACCADE_CHECK(y >= 0 && x >= 0 && y + in.height <= height && x + in.width <= width,
                "[place_on_canvas] {} x {} pixels at ({}, {}) do not fit {} x {}", in.width, in.height, x, y,
                width, height);
  Image out(height, width);
  if (color != kBlack)
    for (size_t i = 0; i < out.rgb.size(); i += 3) std::memcpy(out.rgb.data() + i, color.data(), 3);
  for (int64_t i = 0; i < in.height; ++i) {
    std::memcpy(out.row(y + i) + x * 3, in.row(i), static_cast<size_t>(in.width * 3));
  }
  sample.image = std::move(out);
  for (SampleBox& box : sample.boxes) {
    box.x1 += static_cast<double>(x);
    box.x2 += static_cast<double>(x);
    box.y1 += static_cast<double>(y);
    box.y2 += static_cast<double>(y);
  }
}

void move_affine(Sample& sample, const AffineChange& change, double min_visible) {
  const Image& in = sample.image;
  const double radians = change.degrees * std::numbers::pi / 180;
  const double cos = std::cos(radians), sin = std::sin(radians), scale = change.scale;
  const double cx = static_cast<double>(in.width) / 2, cy = static_cast<double>(in.height) / 2;
  // Where pixel (x, y) comes from, with 32 fractional bits: integers give the same bytes whatever the compiler contracts.
  auto fixed = [](double v) { return std::llround(v * 0x1p32); };
  const int64_t along = fixed(cos / scale), across = fixed(sin / scale);
  const double from_x = 0.5 - cx - change.x, from_y = 0.5 - cy - change.y;
  const int64_t begin_x = fixed((cos * from_x + sin * from_y) / scale + cx),
                begin_y = fixed((cos * from_y - sin * from_x) / scale + cy);
  Image out(in.height, in.width);
  for (int64_t y = 0; y < out.height; ++y) {
    int64_t at_x = begin_x + across * y, at_y = begin_y + along * y;
    uint8_t* to = out.row(y);
    for (int64_t x = 0; x < out.width; ++x, to += 3, at_x += along, at_y -= across) {
      const int64_t column = at_x >> 32, row = at_y >> 32;
      if (column >= 0 && column < in.width && row >= 0 && row < in.height)
        std::memcpy(to, in.row(row) + column * 3, 3);
    }
  }
  sample.image = std::move(out);
  for (SampleBox& box : sample.boxes) {
    const SampleBox old = box;
    box = {{HUGE_VAL, HUGE_VAL, -HUGE_VAL, -HUGE_VAL}, old.label};
    for (double x : {old.x1, old.x2})
      for (double y : {old.y1, old.y2}) {
        const double moved_x = scale * (cos * (x - cx) - sin * (y - cy)) + cx + change.x;
        const double moved_y = scale * (sin * (x - cx) + cos * (y - cy)) + cy + change.y;
        box.x1 = std::min(box.x1, moved_x);
        box.x2 = std::max(box.x2, moved_x);
        box.y1 = std::min(box.y1, moved_y);
        box.y2 = std::max(box.y2, moved_y);
      }
  }
  clip_boxes(sample, min_visible);
}

ImageSize detr_size(int64_t height, int64_t width, int64_t short_side, int64_t max_long_side) {
  double shorter = static_cast<double>(std::min(height, width)),
         longer = static_cast<double>(std::max(height, width));
  int64_t size = short_side;
  if (max_long_side > 0 &&
      longer / shorter * static_cast<double>(size) > static_cast<double>(max_long_side)) {
    // Python's round() goes to even at a tie, as nearbyint does.
    size = std::max<int64_t>(
        1, static_cast<int64_t>(std::nearbyint(static_cast<double>(max_long_side) * shorter / longer)));
  }
  if (std::min(height, width) == size) return {height, width};
  if (width < height) return {size * height / width, size};
  return {size, size * width / height};
}

}  // namespace saccade
