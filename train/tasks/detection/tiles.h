// Images much larger than those of training, seen in overlapping tiles: where the tiles lie, and how what was
// found in them becomes what is in the image.
#pragma once

#include <vector>

#include "data/images/image.h"
#include "models/detector.h"

namespace saccade {

// A part of an image; pixels.
struct Tile {
  int64_t x = 0, y = 0, width = 0, height = 0;
};

// The smallest number of tiles of `side` pixels that cover the image with at least this fraction of a side in
// common between neighbours, at even distances, row by row; after them the whole image, for objects larger
// than a tile. An image that fits into a tile is the whole image alone.
// Expects side > 0 and 0 <= overlap < 1.
std::vector<Tile> tiles_of(ImageSize image, int64_t side, double overlap);

// The detections of one image from those of its tiles, whose boxes are in pixels of their tile. By falling
// score (then tile, then order), each is kept, or joined to a kept one of its class from another tile with
// which it has an IoU of at least 0.5, or, where the smaller of the two boxes is cut off by the border of its
// tile, at least half of that box in common (Akyol et al. 2022, "Slicing Aided Hyper Inference"); of several
// to that with the highest IoU, until nothing is left to join. A kept box that the border of a tile has cut
// off then covers both. Detections of one tile are never joined, as the model has told them apart.
std::vector<ImageDetection> merge_tiles(ImageSize image, const std::vector<Tile>& tiles,
                                        const std::vector<std::vector<ImageDetection>>& found);

}  // namespace saccade
