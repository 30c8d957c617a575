#include "data/images/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/tensor/error.h"
#include "data/images/codecs.h"

namespace saccade {
namespace {

void blend(Image& image, int64_t x, int64_t y, Rgb color, double alpha) {
  if (x < 0 || y < 0 || x >= image.width || y >= image.height) return;
  uint8_t* p = image.row(y) + x * 3;
  for (size_t c = 0; c < 3; ++c) {
    p[c] = static_cast<uint8_t>(std::lround(p[c] + (static_cast<double>(color[c]) - p[c]) * alpha));
  }
}

struct Rect {
  int64_t x1, y1, x2, y2;  // half open
  bool overlaps(const Rect& o) const { return x1 < o.x2 && o.x1 < x2 && y1 < o.y2 && o.y1 < y2; }
};

void fill(Image& image, Rect r, Rgb color, double alpha = 1) {
  for (int64_t y = std::max<int64_t>(r.y1, 0); y < std::min(r.y2, image.height); ++y) {
    for (int64_t x = std::max<int64_t>(r.x1, 0); x < std::min(r.x2, image.width); ++x)
      blend(image, x, y, color, alpha);
  }
}

// Draws a frame of `width` pixels just inside the rectangle.
void frame(Image& image, Rect r, Rgb color, int64_t width, double alpha = 1) {
  width = std::min({width, (r.x2 - r.x1 + 1) / 2, (r.y2 - r.y1 + 1) / 2});
  fill(image, {r.x1, r.y1, r.x2, r.y1 + width}, color, alpha);
  fill(image, {r.x1, r.y2 - width, r.x2, r.y2}, color, alpha);
  fill(image, {r.x1, r.y1 + width, r.x1 + width, r.y2 - width}, color, alpha);
  fill(image, {r.x2 - width, r.y1 + width, r.x2, r.y2 - width}, color, alpha);
}

bool is_light(Rgb c) { return 0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2] > 140; }

// Clamps a coordinate that a network predicted to the range of integers.
int64_t pixel(double v, int64_t limit) {
  double low = -1e6, high = static_cast<double>(limit) + 1e6;
  return std::isfinite(v) ? std::llround(std::clamp(v, low, high)) : 0;
}

std::string tag_text(const Instance& box, const std::vector<std::string>& names) {
  bool named = box.label >= 0 && box.label < static_cast<int64_t>(names.size());
  std::string text = named ? names[static_cast<size_t>(box.label)] : fmt::format("{}", box.label);
  return box.score >= 0 ? fmt::format("{} {:.2f}", text, box.score) : text;
}

}  // namespace

Rgb color_of_label(int64_t label) {
  // Takes steps of the golden angle around the colour circle, with three lightnesses.
  double hue = std::fmod(static_cast<double>(label & 0xFFFF) * 0.61803398875 + 0.02, 1.0) * 6;
  double value = label % 3 == 1 ? 0.82 : 1.0, saturation = label % 3 == 2 ? 0.55 : 0.85;
  Rgb out;
  for (int c = 0; c < 3; ++c) {
    double k = std::fmod(5.0 - 2.0 * c + hue, 6.0);
    double v = value - value * saturation * std::clamp(std::min(k, 4 - k), 0.0, 1.0);
    out[static_cast<size_t>(c)] = static_cast<uint8_t>(std::lround(255 * v));
  }
  return out;
}

std::vector<uint32_t> label_palette(const std::vector<int64_t>& values) {
  std::vector<uint32_t> palette(256, 0);
  for (size_t k = 0; k < values.size(); ++k) {
    const Rgb color = color_of_label(static_cast<int64_t>(k));
    palette.at(static_cast<size_t>(values[k])) =
        uint32_t{color[0]} << 16 | uint32_t{color[1]} << 8 | color[2];
  }
  return palette;
}

void draw_mask(Image& image, const Mask& mask, Rgb color) {
  SACCADE_CHECK(mask.size() == (ImageSize{image.height, image.width}),
                "[draw_mask] a mask of {} x {} on {} x {} pixels", mask.size().width, mask.size().height,
                image.width, image.height);
  const std::vector<uint8_t> pixels = mask.bitmap();
  auto is_set = [&](int64_t x, int64_t y) {
    return x >= 0 && y >= 0 && x < image.width && y < image.height &&
           pixels[static_cast<size_t>(y * image.width + x)] != 0;
  };
  const Box& box = mask.box();
  for (auto y = static_cast<int64_t>(box.y1); y < static_cast<int64_t>(box.y2); ++y)
    for (auto x = static_cast<int64_t>(box.x1); x < static_cast<int64_t>(box.x2); ++x) {
      if (!is_set(x, y)) continue;
      const bool is_inside = is_set(x - 1, y) && is_set(x + 1, y) && is_set(x, y - 1) && is_set(x, y + 1);
      blend(image, x, y, color, is_inside ? 0.4 : 1);
    }
}

void draw_boxes(Image& image, const std::vector<Instance>& boxes, const std::vector<std::string>& names,
                const DrawStyle& style, const std::vector<int64_t>& tracks) {
  SACCADE_CHECK(tracks.empty() || tracks.size() == boxes.size(), "[draw_boxes] {} tracks of {} boxes",
                tracks.size(), boxes.size());
  auto color_of = [&](size_t i) { return color_of_label(tracks.empty() ? boxes[i].label : tracks[i]); };
  auto text_of = [&](size_t i) {
    const std::string text = tag_text(boxes[i], names);
    return tracks.empty() ? text : fmt::format("#{} {}", tracks[i], text);
  };
  const int64_t side = std::min(image.height, image.width);
  const int64_t line = style.line_width.value_or(std::max<int64_t>(1, (side + 120) / 240));
  const int64_t letters = style.letter_size.value_or(std::max<int64_t>(10, side / 36));
  const int64_t pad = std::max<int64_t>(2, letters / 6);
  auto rect_of = [&](const Instance& b) {
    Rect r{pixel(b.box.x1, image.width), pixel(b.box.y1, image.height), pixel(b.box.x2, image.width),
           pixel(b.box.y2, image.height)};
    r.x2 = std::max(r.x2, r.x1 + 1);
    r.y2 = std::max(r.y2, r.y1 + 1);
    return r;
  };
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return boxes[i].score; });

  for (auto it = order.rbegin(); it != order.rend(); ++it)
    if (const Instance& box = boxes[*it]; box.mask) draw_mask(image, *box.mask, color_of(*it));
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    Rect r = rect_of(boxes[*it]);
    frame(image, {r.x1 - 1, r.y1 - 1, r.x2 + 1, r.y2 + 1}, {0, 0, 0}, 1, 0.45);
    frame(image, r, color_of(*it), line);
  }
  if (letters == 0) return;
  std::vector<Rect> tags;
  for (size_t i : order) {
    const std::string text = text_of(i);
    Rect r = rect_of(boxes[i]);
    int64_t w = text_width(text, letters) + 2 * pad, h = letters + 2 * pad;
    int64_t x = std::clamp<int64_t>(r.x1, 0, std::max<int64_t>(0, image.width - w));
    int64_t right = std::clamp<int64_t>(r.x2 - w, 0, std::max<int64_t>(0, image.width - w));
    auto at = [&](int64_t left, int64_t top) { return Rect{left, top, left + w, top + h}; };
    auto is_free = [&](const Rect& place) {
      return place.y1 >= 0 && place.y2 <= image.height &&
             std::none_of(tags.begin(), tags.end(), [&](const Rect& tag) { return tag.overlaps(place); });
    };
    const Rect places[] = {at(x, r.y1 - h),     at(x, r.y2),     at(x, r.y1 + line),
                           at(right, r.y1 - h), at(right, r.y2), at(x, r.y2 - line - h)};
    const Rect* place = std::find_if(std::begin(places), std::end(places), is_free);
    tags.push_back(place != std::end(places)
                       ? *place
                       : at(x, std::clamp<int64_t>(r.y1 - h, 0, std::max<int64_t>(0, image.height - h))));
  }
  // The most certain tags come last, so that they stay readable if no free place was left.
  for (size_t k = order.size(); k-- > 0;) {
    const std::string text = text_of(order[k]);
    Rgb color = color_of(order[k]);
    fill(image, tags[k], color, 0.88);
    draw_text(image, tags[k].x1 + pad, tags[k].y1 + pad, text,
              is_light(color) ? Rgb{0, 0, 0} : Rgb{255, 255, 255}, letters);
  }
}

void draw_points(Image& image, const std::vector<DrawnPoint>& points, double radius) {
  for (const DrawnPoint& p : points) {
    if (!std::isfinite(p.x) || !std::isfinite(p.y) || std::abs(p.x) > 1e6 || std::abs(p.y) > 1e6) continue;
    Rgb color = color_of_label(p.label);
    double opacity = std::clamp(p.weight, 0.0, 1.0);
    for (auto y = static_cast<int64_t>(std::floor(p.y - radius - 1));
         y <= static_cast<int64_t>(p.y + radius + 1); ++y) {
      for (auto x = static_cast<int64_t>(std::floor(p.x - radius - 1));
           x <= static_cast<int64_t>(p.x + radius + 1); ++x) {
        double d =
            std::hypot(static_cast<double>(x) + 0.5 - p.x, static_cast<double>(y) + 0.5 - p.y) - radius;
        blend(image, x, y, color, opacity * std::clamp(0.5 - d, 0.0, 1.0));
      }
    }
  }
}

std::vector<uint8_t> encode_png(const Image& image, const Mask& opaque) {
  const ImageSize size{image.height, image.width};
  SACCADE_CHECK(opaque.size() == size, "[encode_png] a mask of {} x {} pixels for an image of {} x {}",
                opaque.size().width, opaque.size().height, size.width, size.height);
  std::vector<uint8_t> pixels;
  pixels.reserve(image.rgb.size() / 3 * 4);
  for (size_t i = 0; uint8_t set : opaque.bitmap()) {
    pixels.insert(pixels.end(), image.rgb.begin() + static_cast<int64_t>(i),
                  image.rgb.begin() + static_cast<int64_t>(i) + 3);
    pixels.push_back(set ? 255 : 0);
    i += 3;
  }
  return encode_png(size, 4, pixels);
}

}  // namespace saccade
