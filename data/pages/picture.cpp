#include "data/pages/picture.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "data/images/resize.h"

namespace saccade {
namespace {

std::string base64(const std::vector<uint8_t>& bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) three = three << 8 | (k < n ? bytes[i + k] : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[three >> (18 - 6 * k) & 63u] : '=';
  }
  return out;
}

Image scaled(const Image& image, double scale) {
  const auto side = [&](int64_t v) {
    return std::max<int64_t>(1, std::llround(static_cast<double>(v) * scale));
  };
  return resize_image(image, side(image.height), side(image.width));
}

// Draws the boxes of a part of an image, whose top left corner is at (y, x) and which is drawn as `small`.
void draw_scaled(Image& small, std::vector<Instance> boxes, int64_t y, int64_t x, ImageSize part,
                 const std::vector<std::string>& names) {
  const double x_scale = static_cast<double>(small.width) / static_cast<double>(part.width),
               y_scale = static_cast<double>(small.height) / static_cast<double>(part.height);
  for (Instance& i : boxes) {
    i.box = scaled(moved(i.box, -static_cast<double>(x), -static_cast<double>(y)), x_scale, y_scale);
    if (i.mask)
      i.mask = std::make_shared<const Mask>(i.mask->crop(y, x, part).resize({small.height, small.width}));
  }
  draw_boxes(small, boxes, names);
}

}  // namespace

Image small_picture(const Image& image, const std::vector<Instance>& boxes,
                    const std::vector<std::string>& names, int64_t side) {
  const double scale =
      std::min(1.0, static_cast<double>(side) / static_cast<double>(std::max(image.width, image.height)));
  Image small = scaled(image, scale);
  draw_scaled(small, boxes, 0, 0, {image.height, image.width}, names);
  return small;
}

Image side_by_side(const Image& left, const Image& right) {
  const int64_t gap = 6;
  Image both(std::max(left.height, right.height), left.width + gap + right.width);
  std::fill(both.rgb.begin(), both.rgb.end(), uint8_t{128});
  for (int64_t y = 0; y < left.height; ++y) std::copy_n(left.row(y), left.width * 3, both.row(y));
  for (int64_t y = 0; y < right.height; ++y)
    std::copy_n(right.row(y), right.width * 3, both.row(y) + (left.width + gap) * 3);
  return both;
}

Image cut_around(const Image& image, const Instance& box, const std::vector<Instance>& others,
                 const std::vector<std::string>& names, int64_t side) {
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  auto inside = [](double v, double high) { return std::isfinite(v) ? std::clamp(v, 0.0, high) : 0.0; };
  const auto& [bx1, by1, bx2, by2] = box.box;
  const double x1 = inside(bx1, width), x2 = inside(bx2, width), y1 = inside(by1, height),
               y2 = inside(by2, height);
  // Adds a margin of 0.4 of the box's sides, and shows at least 48 pixels, so that something can be seen.
  const double half = std::max({(x2 - x1) * 0.9, (y2 - y1) * 0.9, 24.0});
  const double cx = (x1 + x2) / 2, cy = (y1 + y2) / 2;
  const auto left = static_cast<int64_t>(inside(cx - half, width - 1)),
             top = static_cast<int64_t>(inside(cy - half, height - 1));
  const auto right = std::max(left + 1, static_cast<int64_t>(std::ceil(inside(cx + half, width)))),
             bottom = std::max(top + 1, static_cast<int64_t>(std::ceil(inside(cy + half, height))));
  const Image part = cut_out(image, top, left, {bottom - top, right - left});
  const double scale = static_cast<double>(side) / static_cast<double>(std::max(part.width, part.height));
  Image small = scaled(part, std::min(scale, 8.0));
  std::vector<Instance> boxes{box};
  boxes.insert(boxes.end(), others.begin(), others.end());
  draw_scaled(small, std::move(boxes), top, left, {part.height, part.width}, names);
  return small;
}

Html picture(const Image& image, const std::string& description, const Html& caption) {
  return html(
      "<figure class=\"picture\"><img src=\"data:image/jpeg;base64,{}\" width=\"{}\" height=\"{}\" alt=\"{}\" "
      "loading=\"lazy\"><figcaption>{}</figcaption></figure>\n",
      Html{base64(encode_jpeg(image, 78))}, image.width, image.height, description, caption);
}

}  // namespace saccade
