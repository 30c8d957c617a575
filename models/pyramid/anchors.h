// Anchors: the boxes that dense heads start from (Ren et al. 2015, Lin et al. 2017). The anchors of a level
// are centred on the corners of its cells: those of cell (x, y) on the pixel (x, y) * stride.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "autograd/var.h"
#include "core/types/feature_levels.h"
#include "core/types/image_size.h"

namespace saccade {

// Images extend to the next multiple of this in both directions, as in mmdetection and torchvision. The cells
// that this adds to an image have anchors too, while the rest of a batch's padding has none,
// so it changes nothing.
inline constexpr int64_t kImageMultiple = 32;
ImageSize reach_of(ImageSize image);
// Pads images [N, H, W, 3] with zeros at the right and bottom to such multiples.
Var fill_reach(const Var& images);
// Reshapes the predictions of all levels, [N, H, W, A * columns] each, to rows [.., columns], ordered by
// level, then image.
Var rows_of_levels(const Vars& levels, int64_t columns);

struct AnchorOptions {
  std::vector<int64_t> strides;              // pixels from cell to cell, one per level
  std::vector<double> scales = {8};          // sides of the square anchors, in strides
  std::vector<double> ratios = {0.5, 1, 2};  // height / width
  // As in torchvision: sides and corners are whole pixels, and a step is the image's extent divided by the
  // number of cells in it, rounded down.
  bool whole_pixels = false;
};

class Anchors {
 public:
  explicit Anchors(const AnchorOptions& options);
  int64_t levels() const { return static_cast<int64_t>(options_.strides.size()); }
  int64_t stride(int64_t level) const { return options_.strides[static_cast<size_t>(level)]; }
  int64_t per_cell() const { return static_cast<int64_t>(options_.scales.size() * options_.ratios.size()); }

  // Returns the map sizes of an image or a padded image: one cell for every started stride of its extent.
  // Further padding adds cells but moves none.
  FeatureLevels maps(ImageSize image) const;
  // Returns which cells of a level's map of a batch are in the padding of their image: bool [N, H, W, times].
  Tensor padding(int64_t level, MapSize map, const std::vector<ImageSize>& images, int64_t times) const;
  // Returns the anchors of all cells of an image, [maps(image).tokens() * per_cell(), 4] as corners in
  // pixels, ordered by level, row, column, ratio, scale. They are not clipped to the image.
  std::vector<float> boxes(ImageSize image) const;

  // The position of one anchor.
  struct Position {
    int64_t level, y, x, anchor;
  };
  std::array<float, 4> box(ImageSize image, const Position& position) const;
  // Returns the position of the i-th box of these maps.
  Position position(const FeatureLevels& maps, int64_t i) const;

 private:
  int64_t step(int64_t level, int64_t pixels) const;

  AnchorOptions options_;
  std::vector<std::vector<std::array<float, 4>>> around_zero_;  // per level, those around the pixel (0, 0)
};

}  // namespace saccade
