#include "data/augment/pixel_map.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace saccade {
namespace {

struct PixelWindow {
  int64_t y = 0, x = 0;
  ImageSize size;
};

// Returns the whole pixels around a box, inside the image.
PixelWindow window_around(const Box& b, ImageSize image) {
  const Box c = cut({std::floor(b.x1), std::floor(b.y1), std::ceil(b.x2), std::ceil(b.y2)}, image);
  return {std::llround(c.y1), std::llround(c.x1), {std::llround(c.height()), std::llround(c.width())}};
}

// Returns whether the map only moves by whole pixels.
bool only_moves(const PixelMap& m) {
  return m.scale_x == 1 && m.scale_y == 1 && m.cos == 1 && m.x == std::floor(m.x) && m.y == std::floor(m.y);
}

// Maps the pixels of a window of the new image to those of one in the old image, with 32 fractional bits:
// integers give the same bytes however the compiler contracts operations.
struct Sources {
  int64_t column, row;  // of the first pixel
  int64_t column_right, row_right, column_down, row_down;

  Sources(const PixelMap& m, const PixelWindow& from, const PixelWindow& to) {
    auto fixed = [](double v) { return std::llround(v * 0x1p32); };
    const double from_x = 0.5 - m.centre_x - m.x, from_y = 0.5 - m.centre_y - m.y;
    column_right = fixed(m.cos / m.scale_x), column_down = fixed(m.sin / m.scale_x);
    row_right = -fixed(m.sin / m.scale_y), row_down = fixed(m.cos / m.scale_y);
    column = fixed((m.cos * from_x + m.sin * from_y) / m.scale_x + m.centre_x) + column_right * to.x +
             column_down * to.y - (from.x << 32);
    row = fixed((m.cos * from_y - m.sin * from_x) / m.scale_y + m.centre_y) + row_right * to.x +
          row_down * to.y - (from.y << 32);
  }
};

// Copies the pixels of C elements whose source is inside `in`; the others stay.
template <int64_t C, class T>
void gather(const Sources& s, const T* in, ImageSize from, T* out, ImageSize to) {
  for (int64_t y = 0; y < to.height; ++y) {
    int64_t column = s.column + s.column_down * y, row = s.row + s.row_down * y;
    for (int64_t x = 0; x < to.width; ++x, out += C, column += s.column_right, row += s.row_right) {
      const int64_t i = row >> 32, j = column >> 32;
      if (i >= 0 && i < from.height && j >= 0 && j < from.width)
        std::memcpy(out, in + (i * from.width + j) * C, C * sizeof(T));
    }
  }
}

// Copies whole rows, for maps that only move.
template <int64_t C, class T>
void copy_rows(int64_t top, int64_t left, const T* in, ImageSize from, T* out, ImageSize to) {
  const int64_t begin = std::max<int64_t>(left, 0), end = std::min(left + from.width, to.width);
  if (begin >= end) return;
  for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + from.height, to.height); ++y)
    std::memcpy(out + (y * to.width + begin) * C, in + ((y - top) * from.width + begin - left) * C,
                static_cast<size_t>(end - begin) * C * sizeof(T));
}

template <int64_t C, class T>
void move_pixels(const PixelMap& map, const T* in, ImageSize from, T* out) {
  if (only_moves(map)) return copy_rows<C>(std::llround(map.y), std::llround(map.x), in, from, out, map.size);
  gather<C>(Sources(map, {}, {}), in, from, out, map.size);
}

// Returns nothing if too little of the object is left.
std::optional<Instance> moved(Instance instance, const PixelMap& map) {
  instance.box = map(instance.box);
  instance.area *= std::abs(map.scale_x * map.scale_y);
  if (map.min_area_ratio) {
    const double before = instance.box.area();
    instance.box = cut(instance.box, map.size);
    instance.area = instance.box.area();  // as in DETR: the object's own is unknown once its box is clipped
    if (instance.box.width() <= 0 || instance.box.height() <= 0) return std::nullopt;
    if (instance.area < *map.min_area_ratio * before) return std::nullopt;
  }
  if (instance.mask) {
    instance.mask = std::make_shared<const Mask>(map(*instance.mask));
    instance.area = static_cast<double>(instance.mask->area());
    if (instance.mask->area() == 0) return std::nullopt;
  }
  return instance;
}

}  // namespace

Box PixelMap::operator()(const Box& box) const {
  Box out{HUGE_VAL, HUGE_VAL, -HUGE_VAL, -HUGE_VAL};
  for (double from_x : {box.x1, box.x2})
    for (double from_y : {box.y1, box.y2}) {
      const double to_x = scale_x * (cos * (from_x - centre_x) - sin * (from_y - centre_y)) + centre_x + x;
      const double to_y = scale_y * (sin * (from_x - centre_x) + cos * (from_y - centre_y)) + centre_y + y;
      out = around(out, {to_x, to_y, to_x, to_y});
    }
  return out;
}

Mask PixelMap::operator()(const Mask& mask) const {
  if (filter) return mask.resize(size);
  if (only_moves(*this)) return mask.crop(-std::llround(y), -std::llround(x), size);
  const PixelWindow from = window_around(mask.box(), mask.size()),
                    to = window_around((*this)(mask.box()), size);
  if (mask.area() == 0 || to.size.height == 0 || to.size.width == 0) return Mask().crop(0, 0, size);
  const std::vector<uint8_t> old = mask.crop(from.y, from.x, from.size).bitmap();
  std::vector<uint8_t> pixels(static_cast<size_t>(to.size.height * to.size.width));
  gather<1>(Sources(*this, from, to), old.data(), from.size, pixels.data(), to.size);
  return Mask::from_bitmap(to.size, pixels).crop(-to.y, -to.x, size);
}

void paste(const Sample& sample, const PixelMap& map, Sample& canvas) {
  const ImageSize from{sample.image.height, sample.image.width};
  const LabelMap& labels = sample.label_map;
  if (map.filter) {
    canvas.image = resize_image(sample.image, map.size.height, map.size.width, *map.filter);
    if (!labels.values.empty()) canvas.label_map = labels.resize(map.size);
  } else {
    move_pixels<3>(map, sample.image.rgb.data(), from, canvas.image.rgb.data());
    if (!labels.values.empty()) {
      if (canvas.label_map.values.empty()) canvas.label_map = LabelMap(map.size);
      move_pixels<1>(map, labels.values.data(), from, canvas.label_map.values.data());
    }
  }
  for (const Instance& instance : sample.instances)
    if (auto m = moved(instance, map)) canvas.instances.push_back(std::move(*m));
}

void move(Sample& sample, const PixelMap& map, const std::array<uint8_t, 3>& color) {
  const Sample old{.image = std::move(sample.image),
                   .instances = std::exchange(sample.instances, {}),
                   .label_map = std::exchange(sample.label_map, {})};
  sample.image = map.filter ? Image() : Image(map.size.height, map.size.width);
  if (color != kBlack)
    for (size_t i = 0; i < sample.image.rgb.size(); i += 3)
      std::memcpy(sample.image.rgb.data() + i, color.data(), 3);
  paste(old, map, sample);
}

}  // namespace saccade
