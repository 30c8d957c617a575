#include "train/tasks/detection/tiles.h"

#include <algorithm>
#include <cmath>

namespace saccade {

namespace {

// The positions at which the tiles of one axis begin.
std::vector<int64_t> tile_starts(int64_t length, int64_t side, double overlap) {
  if (length <= side) return {0};
  const auto common = static_cast<int64_t>(std::ceil(overlap * static_cast<double>(side)));
  const int64_t step = std::max<int64_t>(side - common, 1);
  const int64_t steps = (length - side + step - 1) / step;
  std::vector<int64_t> starts;
  for (int64_t i = 0; i <= steps; ++i) starts.push_back((length - side) * i / steps);
  return starts;
}

// A detection in pixels of the image, with the tiles that it was found in.
struct TiledDetection {
  ImageDetection found;
  std::vector<size_t> tiles;
  bool is_cut;
};

bool is_cut_off(const ImageDetection& d, const Tile& tile, ImageSize image) {
  constexpr double kNear = 0.01;  // share of a side: boxes do not end exactly at the border
  const double x = kNear * static_cast<double>(tile.width), y = kNear * static_cast<double>(tile.height);
  const auto left = static_cast<double>(tile.x), right = static_cast<double>(tile.x + tile.width);
  const auto top = static_cast<double>(tile.y), bottom = static_cast<double>(tile.y + tile.height);
  return (tile.x > 0 && d.box.x1 < left + x) || (tile.x + tile.width < image.width && d.box.x2 > right - x) ||
         (tile.y > 0 && d.box.y1 < top + y) || (tile.y + tile.height < image.height && d.box.y2 > bottom - y);
}

// Returns the IoU of two detections of the same object, else 0. A view whose border cuts an object shows a
// part of it, which is small compared with the whole: for such a part, what counts is its share inside the
// other box. A whole small box within a larger one is an object of its own.
double overlap_if_one(const TiledDetection& a, const TiledDetection& b) {
  if (a.found.label != b.found.label) return 0;
  if (std::ranges::find_first_of(a.tiles, b.tiles) != a.tiles.end()) return 0;
  const Box &box_a = a.found.box, &box_b = b.found.box;
  const double overlap = iou(box_a, box_b), area_a = box_a.area(), area_b = box_b.area();
  const bool is_part = area_a < area_b ? a.is_cut : b.is_cut;
  const double share = intersection(box_a, box_b) / std::min(area_a, area_b);
  return (is_part ? share : overlap) >= 0.5 ? overlap : 0;
}

void join(TiledDetection& kept, const TiledDetection& other) {
  kept.tiles.insert(kept.tiles.end(), other.tiles.begin(), other.tiles.end());
  if (!kept.is_cut) return;  // of two whole views the better one counts
  kept.is_cut = other.is_cut;
  kept.found.box = around(kept.found.box, other.found.box);
  if (kept.found.mask && other.found.mask)
    kept.found.mask = std::make_shared<const Mask>(*kept.found.mask | *other.found.mask);
}

// Keeps each detection in order, or joins it to the kept one of the same object; among several, to the one
// with which it overlaps most.
std::vector<TiledDetection> join_once(const std::vector<TiledDetection>& all) {
  std::vector<TiledDetection> kept;
  for (const TiledDetection& d : all) {
    TiledDetection* same = nullptr;
    double most = 0;
    for (TiledDetection& k : kept)
      if (const double overlap = overlap_if_one(k, d); overlap > most) same = &k, most = overlap;
    if (same)
      join(*same, d);
    else
      kept.push_back(d);
  }
  return kept;
}

}  // namespace

std::vector<Tile> tiles_of(ImageSize image, int64_t side, double overlap) {
  std::vector<Tile> tiles;
  if (image.height > side || image.width > side)
    for (int64_t y : tile_starts(image.height, side, overlap))
      for (int64_t x : tile_starts(image.width, side, overlap))
        tiles.push_back({x, y, std::min(side, image.width), std::min(side, image.height)});
  tiles.push_back({0, 0, image.width, image.height});
  return tiles;
}

std::vector<ImageDetection> merge_tiles(ImageSize image, const std::vector<Tile>& tiles,
                                        const std::vector<std::vector<ImageDetection>>& found) {
  std::vector<TiledDetection> all;
  for (size_t t = 0; t < tiles.size(); ++t)
    for (ImageDetection d : found[t]) {
      const auto x = static_cast<double>(tiles[t].x), y = static_cast<double>(tiles[t].y);
      d.box = moved(d.box, x, y);
      if (d.mask) d.mask = std::make_shared<const Mask>(d.mask->crop(-tiles[t].y, -tiles[t].x, image));
      all.push_back({d, {t}, is_cut_off(d, tiles[t], image)});
    }
  std::ranges::stable_sort(all, std::ranges::greater(), [](const auto& d) { return d.found.score; });
  // Joined detections may now match others: the parts of a large object meet in the view of the whole image.
  for (size_t before = 0; before != all.size();) {
    before = all.size();
    all = join_once(all);
  }
  std::vector<ImageDetection> merged;
  for (const TiledDetection& k : all) merged.push_back(k.found);
  return merged;
}

}  // namespace saccade
