#include "data/pages/label_picture.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/images/draw.h"
#include "data/pages/picture.h"

namespace saccade {
namespace {

void blend(uint8_t* pixel, Rgb color, double part) {
  for (size_t c = 0; c < 3; ++c)
    pixel[c] =
        static_cast<uint8_t>(std::lround(pixel[c] + (static_cast<double>(color[c]) - pixel[c]) * part));
}

// Draws the names of the largest classes, each on a patch of its colour, from the top left corner down.
void draw_legend(Image& image, const std::map<uint16_t, int64_t>& pixels,
                 const std::vector<std::string>& names) {
  constexpr size_t kMaxListed = 12;
  std::vector<std::pair<int64_t, uint16_t>> order;
  for (const auto& [label, count] : pixels) order.emplace_back(-count, label);
  std::sort(order.begin(), order.end());
  const int64_t letters = std::max<int64_t>(10, std::min(image.height, image.width) / 36), pad = letters / 4;
  const int64_t height = letters + 2 * pad;
  if (order.size() > kMaxListed) order.resize(kMaxListed);
  int64_t y = pad;
  for (const auto& [count, label] : order) {
    if (2 * (y + height) > image.height) break;  // small pictures are not covered
    const std::string name = label < names.size() ? printable(names[label]) : std::to_string(label);
    const Rgb color = color_of_label(label);
    const int64_t width = std::min(text_width(name, letters) + 2 * pad, image.width - pad);
    for (int64_t row = y; row < y + height; ++row)
      for (int64_t x = pad; x < pad + width && x < image.width; ++x)
        blend(image.row(row) + x * 3, color, 0.9);
    const bool is_light = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2] > 140;
    const auto ink = static_cast<uint8_t>(is_light ? 0 : 255);
    draw_text(image, 2 * pad, y + pad, name, {ink, ink, ink}, letters);
    y += height;
  }
}

}  // namespace

void paint_labels(Image& image, const LabelMap& labels, const std::vector<std::string>& names) {
  SACCADE_CHECK(labels.size == (ImageSize{image.height, image.width}),
                "[paint_labels] labels of {} x {} on {} x {} pixels", labels.size.width, labels.size.height,
                image.width, image.height);
  std::map<uint16_t, int64_t> pixels;
  auto label_at = [&](int64_t y, int64_t x) {
    return labels.values[static_cast<size_t>(y * image.width + x)];
  };
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x) {
      const uint16_t label = label_at(y, x);
      if (label == LabelMap::kIgnored) continue;
      ++pixels[label];
      const bool is_edge = (x > 0 && label_at(y, x - 1) != label) || (y > 0 && label_at(y - 1, x) != label);
      blend(image.row(y) + x * 3, color_of_label(label), is_edge ? 1 : 0.5);
    }
  draw_legend(image, pixels, names);
}

Image labels_beside_each_other(const Image& image, const LabelMap& truth, const LabelMap& found,
                               const std::vector<std::string>& names, int64_t side) {
  const Image small = small_picture(image, {}, {}, side);
  Image left = small, right = small;
  const ImageSize size{small.height, small.width};
  paint_labels(left, truth.resize(size), names);
  paint_labels(right, found.resize(size), names);
  return side_by_side(left, right);
}

}  // namespace saccade
