// Handles images much larger than those of training in overlapping tiles: places the tiles, and merges the
// detections of the tiles into those of the image.
#pragma once

#include <vector>

#include "data/images/image.h"
#include "models/detector.h"

namespace saccade {

// A part of an image, in pixels.
struct Tile {
  int64_t x = 0, y = 0, width = 0, height = 0;
};

// Returns the smallest number of tiles of `side` pixels that cover the image and of which neighbours share at
// least this fraction of a side, evenly spaced, row by row; then the whole image, for objects larger than a
// tile. For an image that fits into a tile, returns only the whole image. Expects side > 0 and
// 0 <= overlap < 1.
std::vector<Tile> tiles_of(ImageSize image, int64_t side, double overlap);

// Merges the detections of an image's tiles, whose boxes are in pixels of their tile. By falling score (then
// tile, then order), each detection is kept, or joined to a kept one of its class from another tile: one with
// an IoU of at least 0.5 or, if the border of its tile cuts off the smaller of the two boxes, one that shares
// at least half of that box (Akyol et al. 2022, "Slicing Aided Hyper Inference"); among several, the one with
// the highest IoU. This repeats until nothing can be joined. A kept box cut off by a tile's border is
// extended to cover both. Detections of one tile are never joined, since the model has told them apart.
std::vector<ImageDetection> merge_tiles(ImageSize image, const std::vector<Tile>& tiles,
                                        const std::vector<std::vector<ImageDetection>>& found);

}  // namespace saccade
