// Anchors: the boxes that dense heads start from (Ren et al. 2015, Lin et al. 2017). Those of a level stand
// at the corners of its cells: those of cell (x, y) are around the pixel (x, y) * stride.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "autograd/var.h"
#include "core/types/feature_levels.h"
#include "core/types/image_size.h"

namespace saccade {

// Images reach to the next multiple of this in both directions, as in mmdetection and torchvision: the cells
// that this adds to an image have anchors too, while the rest of a batch's padding has none,
// so that it changes nothing.
inline constexpr int64_t kImageMultiple = 32;
ImageSize reach_of(ImageSize image);
// images [N, H, W, 3] with zeros at the right and below, where their sizes are no multiples.
Var fill_reach(const Var& images);
// Predictions of all levels, [N, H, W, A * columns] each, as rows [.., columns]: level by level, image by
// image.
Var rows_of_levels(const Vars& levels, int64_t columns);

struct AnchorOptions {
  std::vector<int64_t> strides;              // pixels from cell to cell, a level each
  std::vector<double> scales = {8};          // sides of the square ones, in strides
  std::vector<double> ratios = {0.5, 1, 2};  // height / width
  // As torchvision has them: sides and corners are whole pixels, and a step is the reach of the image over
  // the number of cells in it, without the rest.
  bool whole_pixels = false;
};

class Anchors {
 public:
  explicit Anchors(const AnchorOptions& options);
  int64_t levels() const { return static_cast<int64_t>(options_.strides.size()); }
  int64_t stride(int64_t level) const { return options_.strides[static_cast<size_t>(level)]; }
  int64_t per_cell() const { return static_cast<int64_t>(options_.scales.size() * options_.ratios.size()); }

  // The maps of an image or a padded image: a cell for every stride that has begun in its reach. What pads an
  // image further adds cells, but moves none.
  FeatureLevels maps(ImageSize image) const;
  // Which cells of a level's map of a batch are in the padding of their image: bool [N, H, W, times].
  Tensor padding(int64_t level, MapSize map, const std::vector<ImageSize>& images, int64_t times) const;
  // The anchors of all cells of an image, [maps(image).tokens() * per_cell(), 4] as corners in pixels: by
  // level, row, column, ratio, scale. They are not cut to the image.
  std::vector<float> boxes(ImageSize image) const;

  // One of them, by where it is.
  struct Position {
    int64_t level, y, x, anchor;
  };
  std::array<float, 4> box(ImageSize image, const Position& position) const;
  // Of the i-th of the boxes of these maps.
  Position position(const FeatureLevels& maps, int64_t i) const;

 private:
  int64_t step(int64_t level, int64_t pixels) const;

  AnchorOptions options_;
  std::vector<std::vector<std::array<float, 4>>> around_zero_;  // of each level those around the pixel (0, 0)
};

}  // namespace saccade
