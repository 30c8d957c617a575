#include "models/pyramid/anchors.h"

#include <cmath>

#include "autograd/ops.h"
#include "core/tensor/error.h"
#include "core/tensor/integers.h"

namespace saccade {
namespace {

std::array<float, 4> moved_by(const std::array<float, 4>& box, int64_t x, int64_t y) {
  const auto dx = static_cast<float>(x), dy = static_cast<float>(y);
  return {box[0] + dx, box[1] + dy, box[2] + dx, box[3] + dy};
}

}  // namespace

ImageSize reach_of(ImageSize image) {
  return {round_up(image.height, kImageMultiple), round_up(image.width, kImageMultiple)};
}

Var fill_reach(const Var& images) {
  Var filled = images;
  for (int axis : {1, 2}) {
    Shape missing = filled.shape();
    missing[axis] = round_up(missing[axis], kImageMultiple) - missing[axis];
    if (missing[axis] > 0)
      filled = concat({filled, Var(Tensor::zeros(missing, filled.dtype(), filled.device()))}, axis);
  }
  return filled;
}

Var rows_of_levels(const Vars& levels, int64_t columns) {
  Vars flat;
  for (const Var& level : levels) flat.push_back(reshape(level, {level.value().numel() / columns, columns}));
  return concat(flat, 0);
}

Anchors::Anchors(const AnchorOptions& options) : options_(options) {
  SACCADE_CHECK(!options.strides.empty() && per_cell() > 0, "[anchors] {} levels of {} anchors per cell",
                options.strides.size(), per_cell());
  for (int64_t stride : options.strides) {
    std::vector<std::array<float, 4>>& boxes = around_zero_.emplace_back();
    for (double ratio : options.ratios) {
      const float height_factor = std::sqrt(static_cast<float>(ratio)), width_factor = 1 / height_factor;
      for (double scale : options.scales) {
        const double side = static_cast<double>(stride) * scale;
        const auto square = static_cast<float>(options.whole_pixels ? std::trunc(side) : side);
        const float x = width_factor * square / 2, y = height_factor * square / 2;
        std::array<float, 4> box{-x, -y, x, y};
        if (options.whole_pixels)
          for (float& corner : box) corner = std::nearbyint(corner);
        boxes.push_back(box);
      }
    }
  }
}

FeatureLevels Anchors::maps(ImageSize image) const {
  const ImageSize reach = reach_of(image);
  FeatureLevels maps;
  for (int64_t stride : options_.strides)
    maps.push_back({ceil_div(reach.height, stride), ceil_div(reach.width, stride)});
  return maps;
}

Tensor Anchors::padding(int64_t level, MapSize map, const std::vector<ImageSize>& images,
                        int64_t times) const {
  Tensor padded = Tensor::zeros({std::ssize(images), map.height, map.width, times}, DType::kBool);
  for (int64_t n = 0; n < std::ssize(images); ++n) {
    const MapSize own = maps(images[static_cast<size_t>(n)])[level];
    padded.select(0, n).slice(0, own.height, map.height).fill(1);
    padded.select(0, n).slice(1, own.width, map.width).fill(1);
  }
  return padded;
}

int64_t Anchors::step(int64_t level, int64_t pixels) const {
  if (!options_.whole_pixels) return stride(level);
  const int64_t reach = round_up(pixels, kImageMultiple);
  return reach / ceil_div(reach, stride(level));
}

std::vector<float> Anchors::boxes(ImageSize image) const {
  const FeatureLevels all = maps(image);
  std::vector<float> boxes;
  boxes.reserve(static_cast<size_t>(4 * all.tokens() * per_cell()));
  for (int64_t l = 0; l < levels(); ++l) {
    const int64_t step_y = step(l, image.height), step_x = step(l, image.width);
    for (int64_t y = 0; y < all[l].height; ++y)
      for (int64_t x = 0; x < all[l].width; ++x)
        for (const auto& around : around_zero_[static_cast<size_t>(l)]) {
          const std::array<float, 4> box = moved_by(around, x * step_x, y * step_y);
          boxes.insert(boxes.end(), box.begin(), box.end());
        }
  }
  return boxes;
}

std::array<float, 4> Anchors::box(ImageSize image, const Position& at) const {
  return moved_by(around_zero_[static_cast<size_t>(at.level)][static_cast<size_t>(at.anchor)],
                  at.x * step(at.level, image.width), at.y * step(at.level, image.height));
}

Anchors::Position Anchors::position(const FeatureLevels& maps, int64_t i) const {
  const int64_t cell = i / per_cell();
  int64_t level = maps.size() - 1;
  while (maps.start(level) > cell) --level;
  const int64_t inside = cell - maps.start(level), width = maps[level].width;
  return {level, inside / width, inside % width, i % per_cell()};
}

}  // namespace saccade
