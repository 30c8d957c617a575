// Tests that tiles cover the image, and that an object on a seam is found once.
#include "train/tasks/detection/tiles.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace saccade {
namespace {

TEST(Tiles, CoverTheImageWithTheirOverlap) {
  for (const ImageSize size : {ImageSize{1000, 1300}, {640, 641}, {100, 5000}, {7, 9}, {640, 640}})
    for (double overlap : {0.0, 0.25, 0.9}) {
      const std::vector<Tile> tiles = tiles_of(size, 640, overlap);
      const Tile& whole = tiles.back();
      EXPECT_TRUE(whole.x == 0 && whole.y == 0 && whole.width == size.width && whole.height == size.height);
      EXPECT_EQ(tiles.size() == 1, size.height <= 640 && size.width <= 640);
      int64_t row_end = 0, last = -1;
      for (size_t i = 0; i + 1 < tiles.size(); ++i) {
        const Tile& t = tiles[i];
        EXPECT_TRUE(t.x >= 0 && t.y >= 0 && t.x + t.width <= size.width && t.y + t.height <= size.height);
        if (t.y != last) {
          EXPECT_TRUE(last < 0 || row_end == size.width);
          EXPECT_EQ(t.x, 0);
        } else {
          EXPECT_LE(t.x, row_end - static_cast<int64_t>(overlap * 640));
        }
        row_end = t.x + t.width, last = t.y;
      }
      EXPECT_TRUE(tiles.size() == 1 || last + tiles[tiles.size() - 2].height == size.height);
    }
}

ImageDetection detection(const Box& box, int64_t label, double score) {
  return {{.label = label, .box = box, .score = score}};
}

// Returns the image's objects as a tile sees them: cut at its border, without those of which less than a
// tenth is inside.
std::vector<ImageDetection> seen(const Tile& tile, const std::vector<ImageDetection>& objects) {
  std::vector<ImageDetection> out;
  for (ImageDetection d : objects) {
    const double area = d.box.area();
    d.box = cut(moved(d.box, -double(tile.x), -double(tile.y)), {tile.height, tile.width});
    const double share = d.box.area() / area;
    d.score *= 1 - 0.1 * double(tile.x % 7) / 7;  // each tile is sure of it to a different degree
    if (share >= 0.1) out.push_back(d);
  }
  return out;
}

TEST(Tiles, EveryObjectIsFoundOnce) {
  const ImageSize size{1000, 1600};
  const std::vector<Tile> tiles = tiles_of(size, 400, 0.25);
  const int64_t seam = tiles[0].width;
  // The objects are on a seam, at a corner of four tiles, larger than a tile, at the image's border, two side
  // by side, and one of another class in the same place.
  const std::vector<ImageDetection> objects{
      detection({double(seam) - 60, 20, double(seam) + 70, 100}, 0, 0.9),
      detection({double(seam) - 30, 360, double(seam) + 30, 430}, 0, 0.8),
      detection({500, 450, 1400, 950}, 1, 0.95),
      detection({0, 600, 50, 660}, 1, 0.7),
      detection({100, 700, 140, 760}, 0, 0.6),
      detection({135, 700, 175, 760}, 0, 0.55),
      detection({100, 700, 140, 760}, 2, 0.5),
  };
  std::vector<std::vector<ImageDetection>> found;
  for (const Tile& tile : tiles) found.push_back(seen(tile, objects));
  std::vector<ImageDetection> merged = merge_tiles(size, tiles, found);
  ASSERT_EQ(merged.size(), objects.size());
  EXPECT_TRUE(
      std::is_sorted(merged.begin(), merged.end(), [](auto& a, auto& b) { return a.score > b.score; }));
  for (const ImageDetection& o : objects)
    EXPECT_EQ(std::ranges::count_if(
                  merged, [&](const ImageDetection& m) { return m.label == o.label && m.box == o.box; }),
              1)
        << o.box.x1 << " " << o.box.y1;
}

TEST(Tiles, WhatAModelToldApartStaysApart) {
  const std::vector<Tile> tiles{{0, 0, 100, 100}, {0, 0, 200, 100}};
  const ImageDetection outer = detection({10, 10, 60, 60}, 0, 0.9);
  const ImageDetection inner = detection({20, 20, 40, 40}, 0, 0.8);
  EXPECT_EQ(merge_tiles({100, 200}, tiles, {{outer, inner}, {}}).size(), 2u);
  EXPECT_EQ(merge_tiles({100, 200}, tiles, {{outer}, {inner}}).size(), 2u);
  // The smaller one touches the border of its tile, so it is part of something, which may be the larger one.
  const ImageDetection part = detection({80, 20, 100, 40}, 0, 0.8);
  const ImageDetection whole = detection({80, 20, 180, 60}, 0, 0.7);
  EXPECT_EQ(merge_tiles({100, 200}, tiles, {{part}, {whole}}).size(), 1u);
}

ImageDetection row_box(double score, double x1, double x2, double y1 = 20, double y2 = 40) {
  return detection({x1, y1, x2, y2}, 0, score);
}

TEST(Tiles, ABoxAroundManyAndNeighboursSwallowNothing) {
  const std::vector<Tile> tiles{{0, 0, 100, 100}, {75, 0, 100, 100}, {0, 0, 175, 100}};
  const ImageSize size{100, 175};
  for (double score : {0.9, 0.4})
    EXPECT_EQ(merge_tiles(size, tiles,
                          {{row_box(score, 10, 20), row_box(score, 40, 50)},
                           {row_box(score, 30, 40), row_box(score, 60, 70)},
                           {row_box(0.7, 5, 150, 10, 50)}})
                  .size(),
              5u);
  // Two boxes overlap, each found in one tile and both in the whole image: each joins its own.
  const std::vector<ImageDetection> merged = merge_tiles(size, tiles,
                                                         {{row_box(0.9, 78, 94)},
                                                          {row_box(0.8, 86 - 75, 98 - 75)},
                                                          {row_box(0.7, 78, 94), row_box(0.6, 86, 98)}});
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_TRUE(merged[0].box.x1 == 78 && merged[0].box.x2 == 94 && merged[1].box.x1 == 86 &&
              merged[1].box.x2 == 98);
}

}  // namespace
}  // namespace saccade
