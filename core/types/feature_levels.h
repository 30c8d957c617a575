// Sizes of feature maps, in cells; data/ measures images in pixels (image_size.h).
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/tensor/error.h"
#include "core/tensor/hd.h"

namespace saccade {

// The size of a map, or of the part of a padded map that is not padding (its top left corner).
struct MapSize {
  int64_t height = 0, width = 0;  // cells
  SACCADE_HD int64_t cells() const { return height * width; }
  bool operator==(const MapSize&) const = default;
};

// The centre of cell i of an axis of `length` cells, as a fraction of the axis.
template <class T>
SACCADE_HD T cell_centre(int64_t i, T length) {
  return (static_cast<T>(i) + T(0.5)) / length;
}

// The maps of a feature pyramid whose cells form one token axis: the cells of the first map row by row, then
// those of the next. Kernels also take it by value, so the number of maps is bounded.
class FeatureLevels {
 public:
  static constexpr int kMax = 16;

  FeatureLevels() = default;
  FeatureLevels(std::initializer_list<MapSize> maps) {
    for (const MapSize& map : maps) push_back(map);
  }
  void push_back(MapSize map) {
    SACCADE_CHECK(count_ < kMax, "[feature levels] more than {} levels", int{kMax});
    SACCADE_CHECK(map.height > 0 && map.width > 0,
                  "[feature levels] level {} has {} x {} cells, expected positive sizes", count_, map.height,
                  map.width);
    maps_[count_] = map;
    starts_[count_++] = tokens_;
    tokens_ += map.cells();
  }

  bool empty() const { return count_ == 0; }
  SACCADE_HD int64_t size() const { return count_; }
  SACCADE_HD const MapSize& operator[](int64_t level) const { return maps_[level]; }
  SACCADE_HD int64_t start(int64_t level) const { return starts_[level]; }  // first token of the level
  SACCADE_HD int64_t tokens() const { return tokens_; }                     // tokens of all levels
  const MapSize* begin() const { return maps_; }
  const MapSize* end() const { return maps_ + count_; }

 private:
  int64_t count_ = 0, tokens_ = 0;
  MapSize maps_[kMax];
  int64_t starts_[kMax] = {};
};

}  // namespace saccade
