// The drawing of the shapes set: backgrounds, signed distances of the shapes, and the visible part of each.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/tensor/philox.h"
#include "data/shapes/shapes_dataset.h"

namespace saccade {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kLeastVisible = 0.25;  // a shape with a smaller visible fraction is not annotated
// No shape is placed if less than this fraction of an earlier one stays visible, so few are unannotated.
constexpr double kKeepVisible = 0.4;
constexpr int kAttempts = 16;

using Color = std::array<double, 3>;  // 0 .. 255

Color mix(const Color& a, const Color& b, double t) {
  return {a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t};
}
double distance(const Color& a, const Color& b) {
  return std::sqrt((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) +
                   (a[2] - b[2]) * (a[2] - b[2]));
}
Color random_color(Rng& rng, double low = 10, double high = 245) {
  Color c;
  for (double& v : c) v = rng.uniform(low, high);
  return c;
}

// Smooth noise in [0, 1]: random values on a grid, interpolated smoothly.
class ValueNoise {
 public:
  ValueNoise(Rng& rng, double cell) : key_((uint64_t{rng.next()} << 32) | rng.next()), scale_(1 / cell) {}
  double at(double x, double y) const {
    x *= scale_;
    y *= scale_;
    double fx = std::floor(x), fy = std::floor(y);
    auto ix = static_cast<int64_t>(fx), iy = static_cast<int64_t>(fy);
    auto smooth = [](double t) { return t * t * (3 - 2 * t); };
    double u = smooth(x - fx), v = smooth(y - fy);
    double top = grid(ix, iy) * (1 - u) + grid(ix + 1, iy) * u;
    double bottom = grid(ix, iy + 1) * (1 - u) + grid(ix + 1, iy + 1) * u;
    return top * (1 - v) + bottom * v;
  }

 private:
  double grid(int64_t x, int64_t y) const {
    uint64_t h = mix_key(key_, static_cast<uint64_t>(x * 0x1F123BB5 + y * 0x5F356495));
    return static_cast<double>(h >> 40) * 0x1p-24;
  }
  uint64_t key_;
  double scale_;
};

// A number in [0, 1] per place: the textures of backgrounds and, more softly, of shapes.
class Pattern {
 public:
  enum Kind { kGradient, kStripes, kChecker, kNoise, kKinds };

  Pattern(Rng& rng, double side)
      : kind_(static_cast<Kind>(rng.below(kKinds))),
        cos_(0),
        sin_(0),
        period_(side * rng.uniform(0.06, 0.3)),
        phase_(rng.uniform()),
        side_(side),
        coarse_(rng, side * rng.uniform(0.12, 0.4)),
        fine_(rng, side * rng.uniform(0.03, 0.08)) {
    double angle = rng.uniform(0, 2 * kPi);
    cos_ = std::cos(angle);
    sin_ = std::sin(angle);
  }
  double at(double x, double y) const {
    double u = x * cos_ + y * sin_, v = y * cos_ - x * sin_;
    switch (kind_) {
      case kGradient:
        return std::clamp(0.5 + (u / side_ - 0.5 * (cos_ + sin_)) * 0.9, 0.0, 1.0);
      case kStripes:
        return 0.5 + 0.5 * std::sin(2 * kPi * (u / period_ + phase_));
      case kChecker: {
        auto cell = static_cast<int64_t>(std::floor(u / period_ + phase_)) +
                    static_cast<int64_t>(std::floor(v / period_ + phase_));
        return (cell & 1) ? 0.85 : 0.15;
      }
      default:
        return 0.65 * coarse_.at(x, y) + 0.35 * fine_.at(x, y);
    }
  }

 private:
  Kind kind_;
  double cos_, sin_, period_, phase_, side_;
  ValueNoise coarse_, fine_;
};

// Returns the signed distance to the outline in units of the shape's radius, negative inside; (x, y) is in
// the shape's own frame.
double polygon_distance(double x, double y, const double (*p)[2], int count) {
  double best = 1e30;
  bool inside = false;
  for (int i = 0, j = count - 1; i < count; j = i++) {
    double ex = p[j][0] - p[i][0], ey = p[j][1] - p[i][1], wx = x - p[i][0], wy = y - p[i][1];
    double t = std::clamp((wx * ex + wy * ey) / (ex * ex + ey * ey), 0.0, 1.0);
    double dx = wx - ex * t, dy = wy - ey * t;
    best = std::min(best, dx * dx + dy * dy);
    if ((p[i][1] > y) != (p[j][1] > y) && x < ex * (y - p[i][1]) / ey + p[i][0]) inside = !inside;
  }
  return inside ? -std::sqrt(best) : std::sqrt(best);
}
double box_distance(double x, double y, double half_w, double half_h) {
  double dx = std::abs(x) - half_w, dy = std::abs(y) - half_h;
  return std::hypot(std::max(dx, 0.0), std::max(dy, 0.0)) + std::min(std::max(dx, dy), 0.0);
}

class Outline {
 public:
  explicit Outline(int64_t category) : category_(category) {
    for (int i = 0; i < 10; ++i) {
      double r = i % 2 ? 0.42 : 1.0, angle = kPi * i / 5;
      star_[i][0] = r * std::sin(angle);
      star_[i][1] = -r * std::cos(angle);
    }
    for (int i = 0; i < 3; ++i) {
      triangle_[i][0] = std::sin(2 * kPi * i / 3);
      triangle_[i][1] = -std::cos(2 * kPi * i / 3);
    }
  }
  // Returns the larger side of the shape's bounding box when it is rotated by `angle`.
  double extent(double angle) const {
    constexpr double kHalfSide = std::numbers::sqrt2 / 2;
    constexpr double kSquare[4][2] = {
        {kHalfSide, kHalfSide}, {kHalfSide, -kHalfSide}, {-kHalfSide, kHalfSide}, {-kHalfSide, -kHalfSide}};
    constexpr double kCross[8][2] = {{0.95, 0.27}, {0.95, -0.27}, {-0.95, 0.27}, {-0.95, -0.27},
                                     {0.27, 0.95}, {0.27, -0.95}, {-0.27, 0.95}, {-0.27, -0.95}};
    switch (category_) {
      case 1:
        return extent_of(kSquare, 4, angle);
      case 2:
        return extent_of(triangle_, 3, angle);
      case 3:
        return extent_of(star_, 10, angle);
      case 5:
        return extent_of(kCross, 8, angle);
      default:
        return 2;
    }
  }
  double at(double x, double y) const {
    switch (category_) {
      case 0:
        return std::hypot(x, y) - 1;
      case 1:
        return box_distance(x, y, std::numbers::sqrt2 / 2, std::numbers::sqrt2 / 2);
      case 2:
        return polygon_distance(x, y, triangle_, 3);
      case 3:
        return polygon_distance(x, y, star_, 10);
      case 4:
        return std::abs(std::hypot(x, y) - 0.78) - 0.22;
      default:
        return std::min(box_distance(x, y, 0.95, 0.27), box_distance(x, y, 0.27, 0.95));
    }
  }

 private:
  static double extent_of(const double (*p)[2], int count, double angle) {
    double cos = std::cos(angle), sin = std::sin(angle), low[2] = {1e9, 1e9}, high[2] = {-1e9, -1e9};
    for (int i = 0; i < count; ++i) {
      double turned[2] = {p[i][0] * cos - p[i][1] * sin, p[i][0] * sin + p[i][1] * cos};
      for (int k = 0; k < 2; ++k) {
        low[k] = std::min(low[k], turned[k]);
        high[k] = std::max(high[k], turned[k]);
      }
    }
    return std::max(high[0] - low[0], high[1] - low[1]);
  }

  int64_t category_;
  double star_[10][2], triangle_[3][2];
};

struct Placed {
  int64_t category = 0;
  double x = 0, y = 0, radius = 0, angle = 0;
  Color fill{}, second{}, border{};
  double texture = 0;       // how much of `second` the pattern mixes in
  double border_width = 0;  // pixels
  int64_t pixels = 0;       // of the whole shape, including parts outside the image
};

class Canvas {
 public:
  Canvas(Rng& rng, int64_t height, int64_t width)
      : rng_(rng), image_(height, width), owner_(static_cast<size_t>(height * width), -1) {
    double side = static_cast<double>(std::min(height, width));
    Color first = random_color(rng), second = random_color(rng);
    // Backgrounds whose two colours differ too much would hide every shape.
    second = mix(first, second, std::min(1.0, rng.uniform(40, 110) / std::max(1.0, distance(first, second))));
    colors_ = {first, second};
    Pattern pattern(rng, side);
    ValueNoise shade(rng, side * 0.5);
    pixels_.resize(owner_.size());
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        double px = static_cast<double>(x), py = static_cast<double>(y);
        Color c = mix(first, second, pattern.at(px, py));
        double light = 26 * (shade.at(px, py) - 0.5);
        pixels_[static_cast<size_t>(y * width + x)] = {c[0] + light, c[1] + light, c[2] + light};
      }
    }
  }

  // Returns a colour that differs from the background and, if possible, from the shapes so far.
  Color contrasting_color() {
    Color best{};
    double best_distance = -1;
    for (int i = 0; i < 24; ++i) {
      Color c = random_color(rng_);
      double d = 1e9;
      for (const Color& other : colors_) d = std::min(d, distance(c, other));
      if (d > best_distance) {
        best = c;
        best_distance = d;
      }
      if (d > 110) break;
    }
    return best;
  }

  // Puts the shape at a random place where enough of the others stays visible; false if none was found.
  bool place(Placed shape) {
    double w = static_cast<double>(image_.width), h = static_cast<double>(image_.height);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      // Up to a fifth of the shape may extend beyond the border.
      double margin = 0.75 * shape.radius;
      shape.x = rng_.uniform(margin, w - margin);
      shape.y = rng_.uniform(margin, h - margin);
      if (fits(shape)) {
        paint(shape);
        colors_.push_back(shape.fill);
        shapes_.push_back(shape);
        return true;
      }
    }
    return false;
  }

  ShapesImage finish() {
    double sigma = rng_.uniform(3, 14);
    for (size_t i = 0; i < pixels_.size(); ++i) {
      for (size_t c = 0; c < 3; ++c) {
        // The sum of four uniform numbers approximates a Gaussian.
        uint32_t a = rng_.next(), b = rng_.next();
        double sum = static_cast<double>((a & 0xFFFF) + (a >> 16) + (b & 0xFFFF) + (b >> 16)) / 65536.0 - 2.0;
        double v = pixels_[i][c] + sigma * std::numbers::sqrt3 * sum;
        image_.rgb[i * 3 + c] = static_cast<uint8_t>(std::clamp(std::lround(v), 0l, 255l));
      }
    }
    ShapesImage result;
    for (size_t s = 0; s < shapes_.size(); ++s) {
      std::vector<uint8_t> visible(owner_.size());
      std::ranges::transform(owner_, visible.begin(),
                             [&](int owner) { return owner == static_cast<int>(s); });
      const Mask mask = Mask::from_bitmap({image_.height, image_.width}, visible);
      const auto area = static_cast<double>(mask.area());
      if (area < kLeastVisible * static_cast<double>(shapes_[s].pixels) || area == 0) continue;
      const Box& box = mask.box();
      result.annotations.push_back({.category_id = shapes_[s].category + 1,
                                    .bbox = {box.x1, box.y1, box.width(), box.height()},
                                    .area = area,
                                    .segmentation = std::make_shared<const Segmentation>(
                                        Segmentation{.polygons = mask.polygons(), .runs = {}})});
    }
    result.label_map = LabelMap({image_.height, image_.width});
    std::ranges::transform(owner_, result.label_map.values.begin(), [&](int owner) {
      return static_cast<uint16_t>(owner < 0 ? 0 : shapes_[static_cast<size_t>(owner)].category + 1);
    });
    result.image = std::move(image_);
    return result;
  }

 private:
  // Calls f(x, y, signed distance in pixels) for every pixel that the shape may touch, even outside the
  // image.
  template <class F>
  static void scan(const Placed& s, F&& f) {
    Outline outline(s.category);
    double cos = std::cos(s.angle), sin = std::sin(s.angle), reach = s.radius + 1;
    for (auto y = static_cast<int64_t>(std::floor(s.y - reach)); y <= static_cast<int64_t>(s.y + reach);
         ++y) {
      for (auto x = static_cast<int64_t>(std::floor(s.x - reach)); x <= static_cast<int64_t>(s.x + reach);
           ++x) {
        double dx = static_cast<double>(x) + 0.5 - s.x, dy = static_cast<double>(y) + 0.5 - s.y;
        double u = (dx * cos + dy * sin) / s.radius, v = (dy * cos - dx * sin) / s.radius;
        double d = outline.at(u, v) * s.radius;
        if (d < 0.5) f(x, y, d);
      }
    }
  }
  bool inside(int64_t x, int64_t y) const {
    return x >= 0 && y >= 0 && x < image_.width && y < image_.height;
  }

  // Counts the shape's pixels and checks that it and those below it stay visible enough.
  bool fits(Placed& shape) const {
    std::vector<int64_t> hidden(shapes_.size(), 0);
    int64_t all = 0, seen = 0;
    scan(shape, [&](int64_t x, int64_t y, double d) {
      if (d > 0) return;
      ++all;
      if (!inside(x, y)) return;
      ++seen;
      int owner = owner_[static_cast<size_t>(y * image_.width + x)];
      if (owner >= 0) ++hidden[static_cast<size_t>(owner)];
    });
    shape.pixels = all;
    if (static_cast<double>(seen) < kKeepVisible * static_cast<double>(all)) return false;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      if (hidden[i] == 0) continue;
      int64_t left = std::count(owner_.begin(), owner_.end(), static_cast<int>(i)) - hidden[i];
      if (static_cast<double>(left) < kKeepVisible * static_cast<double>(shapes_[i].pixels)) return false;
    }
    return true;
  }

  void paint(const Placed& shape) {
    Pattern pattern(rng_, shape.radius * 2);
    int index = static_cast<int>(shapes_.size());
    scan(shape, [&](int64_t x, int64_t y, double d) {
      if (!inside(x, y)) return;
      size_t at = static_cast<size_t>(y * image_.width + x);
      double t = shape.texture > 0
                     ? shape.texture * pattern.at(static_cast<double>(x) - shape.x + shape.radius,
                                                  static_cast<double>(y) - shape.y + shape.radius)
                     : 0;
      Color c = mix(shape.fill, shape.second, t);
      if (shape.border_width > 0) c = mix(c, shape.border, std::clamp(d + shape.border_width, 0.0, 1.0));
      pixels_[at] = mix(pixels_[at], c, std::clamp(0.5 - d, 0.0, 1.0));
      if (d <= 0) owner_[at] = index;
    });
  }

  Rng& rng_;
  Image image_;
  std::vector<Color> pixels_;
  std::vector<int> owner_;  // index of the topmost shape, -1 for background
  std::vector<Color> colors_;
  std::vector<Placed> shapes_;
};

}  // namespace

ShapesImage draw_shapes_image(const ShapesOptions& options, int64_t index) {
  Rng rng(mix_key(mix_key(options.seed, hash_name("shapes")), static_cast<uint64_t>(index)));
  auto side = [&] { return options.min_side + rng.below(options.max_side - options.min_side + 1); };
  int64_t width = side(), height = side();
  double shorter = static_cast<double>(std::min(width, height));
  Canvas canvas(rng, height, width);
  int64_t count = 1 + rng.below(8);
  for (int64_t i = 0; i < count; ++i) {
    Placed shape;
    shape.category = rng.below(static_cast<int64_t>(shape_names().size()));
    shape.angle = rng.uniform(0, 2 * kPi);
    // Small shapes are more frequent than large ones.
    double across = shorter * (0.08 + 0.52 * std::pow(rng.uniform(), 1.6));
    shape.radius = across / Outline(shape.category).extent(shape.angle);
    shape.fill = canvas.contrasting_color();
    shape.second = random_color(rng);
    shape.texture = rng.uniform() < 0.5 ? rng.uniform(0.1, 0.35) : 0;
    shape.border = mix(shape.fill, rng.uniform() < 0.5 ? Color{0, 0, 0} : Color{255, 255, 255}, 0.6);
    shape.border_width = rng.uniform() < 0.3 ? 0.06 * shape.radius + 0.5 : 0;
    canvas.place(shape);
  }
  return canvas.finish();
}

}  // namespace saccade
