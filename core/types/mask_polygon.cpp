// Masks of polygons by the rule of pycocotools: the outline is drawn on a lattice five times as fine as the
// pixels, with one point per step along the longer side of an edge. Where it steps from the lattice column in
// the middle of a column of pixels to the next, the pixels below flip between outside and inside.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/tensor/error.h"
#include "core/types/mask.h"

namespace saccade {
namespace {

constexpr int64_t kFine = 5, kMiddle = kFine / 2;
constexpr double kMaxCoordinate = 1e8;
constexpr size_t kMaxPending = size_t{1} << 20;

struct LatticePoint {
  int64_t x = 0, y = 0;
};

// Adds the first pixel that flips in each column of pixels that the edge crosses. The lattice points round as
// in pycocotools: this file is compiled without fused multiply-adds (CMakeLists.txt).
void add_edge(LatticePoint from, LatticePoint to, ImageSize size, std::vector<uint32_t>& changes) {
  const bool is_steep = std::abs(to.x - from.x) < std::abs(to.y - from.y);
  if (is_steep ? from.y > to.y : from.x > to.x) std::swap(from, to);
  if (from.x == to.x) return;
  const int64_t steps = is_steep ? to.y - from.y : to.x - from.x;
  const auto start = static_cast<double>(is_steep ? from.x : from.y);
  const auto rise = static_cast<double>(is_steep ? to.x - from.x : to.y - from.y);
  const double slope = rise / static_cast<double>(steps);
  auto other = [&](int64_t step) {  // the coordinate that does not grow by one per step
    return static_cast<int64_t>(start + slope * static_cast<double>(step) + 0.5);
  };
  const int64_t left = is_steep ? std::min(other(0), other(steps)) : from.x;
  const int64_t right = is_steep ? std::max(other(0), other(steps)) : to.x;
  for (int64_t column = (std::max<int64_t>(left, 0) + kMiddle) / kFine; column < size.width; ++column) {
    const int64_t middle = column * kFine + kMiddle;
    if (middle >= right) break;
    int64_t y = 0;  // the upper of the two lattice points
    if (is_steep) {
      auto is_beyond = [&](int64_t step) { return (other(step) > middle) == (slope > 0); };
      const double about = (static_cast<double>(middle) + 0.5 - start) / slope;
      int64_t step = std::clamp<int64_t>(static_cast<int64_t>(about), 1, steps);
      while (step > 1 && is_beyond(step - 1)) --step;
      while (!is_beyond(step)) ++step;
      y = from.y + step - 1;
    } else {
      y = std::min(other(middle - from.x), other(middle + 1 - from.x));
    }
    const int64_t row = std::clamp<int64_t>((y + kMiddle) / kFine, 0, size.height);
    changes.push_back(static_cast<uint32_t>(column * size.height + row));
  }
}

// Sorts the changes and removes pairs: a pixel that flips twice does not change.
void cancel_pairs(std::vector<uint32_t>& changes) {
  std::ranges::sort(changes);
  size_t kept = 0;
  for (const uint32_t change : changes) {
    if (kept > 0 && changes[kept - 1] == change)
      --kept;
    else
      changes[kept++] = change;
  }
  changes.resize(kept);
}

// Returns the pixels where the inside of the polygon begins and ends, in turns: an outline crosses each
// column an even number of times.
std::vector<uint32_t> changes_of(ImageSize size, std::span<const double> polygon) {
  std::vector<uint32_t> changes;
  auto point = [&](size_t i) {
    auto fine = [](double v) { return static_cast<int64_t>(static_cast<double>(kFine) * v + 0.5); };
    return LatticePoint{fine(polygon[i]), fine(polygon[i + 1])};
  };
  size_t most = kMaxPending;  // bounds the memory for an outline that crosses the same pixels repeatedly
  for (size_t i = 0; i < polygon.size(); i += 2) {
    add_edge(point(i), point((i + 2) % polygon.size()), size, changes);
    if (changes.size() < most) continue;
    cancel_pairs(changes);
    most = std::max(most, 2 * changes.size());
  }
  cancel_pairs(changes);
  return changes;
}

void check_coordinates(std::span<const double> coordinates, const std::string& what) {
  for (const double v : coordinates)
    if (!(std::abs(v) <= kMaxCoordinate))
      fail_input("mask: {} has the coordinate {}, expected at most {:.0e} pixels", what, v, kMaxCoordinate);
}

}  // namespace

void Mask::check_polygons(std::span<const std::vector<double>> polygons) {
  for (size_t i = 0; i < polygons.size(); ++i) {
    const std::vector<double>& polygon = polygons[i];
    if (polygon.size() % 2 != 0 || polygon.size() < 6)
      fail_input("mask: polygon {} has {} coordinates, expected an even number, at least 6", i + 1,
                 polygon.size());
    check_coordinates(polygon, fmt::format("polygon {}", i + 1));
  }
}

Mask Mask::from_polygons(ImageSize size, std::span<const std::vector<double>> polygons) {
  pixels_of(size);
  check_polygons(polygons);
  std::vector<Run> pending, runs;
  auto unite = [&] {
    std::ranges::sort(pending, {}, &Run::begin);
    runs.clear();
    for (const Run& run : pending) append(runs, run.begin, run.end);
  };
  size_t most = kMaxPending;
  for (const std::vector<double>& polygon : polygons) {
    const std::vector<uint32_t> changes = changes_of(size, polygon);
    for (size_t k = 0; k < changes.size(); k += 2) pending.push_back({changes[k], changes[k + 1]});
    if (pending.size() < most) continue;
    unite();
    pending = runs;
    most = std::max(most, 2 * runs.size());
  }
  unite();
  return {size, std::move(runs)};
}

namespace {

// A part of a mask that has one run in each of its columns: its upper and its lower side, from the left, and
// the run in the last column.
struct OnePiece {
  std::vector<double> upper, lower;
  int64_t top = 0, bottom = 0;

  void go_to(int64_t x, int64_t new_top, int64_t new_bottom) {
    auto step = [&](std::vector<double>& side, int64_t& before, int64_t after) {
      if (before == after) return;
      for (const int64_t v : {x, before, x, after}) side.push_back(static_cast<double>(v));
      before = after;
    };
    step(upper, top, new_top);
    step(lower, bottom, new_bottom);
  }
  std::vector<double> polygon(int64_t end) {
    std::vector<double> all = std::move(upper);
    for (const int64_t v : {end, top, end, bottom}) all.push_back(static_cast<double>(v));
    for (size_t i = lower.size(); i >= 2; i -= 2) all.insert(all.end(), {lower[i - 2], lower[i - 1]});
    return all;
  }
  bool meets(int64_t other_top, int64_t other_bottom) const {
    return top < other_bottom && other_top < bottom;
  }
};

}  // namespace

std::vector<std::vector<double>> Mask::polygons() const {
  std::vector<std::vector<double>> all;
  std::vector<OnePiece> open;                       // pieces that reach the previous column
  std::vector<std::pair<int64_t, int64_t>> column;  // runs of the current column
  // A run extends a piece if neither meets another one; otherwise pieces end and new ones begin.
  auto close_column = [&](int64_t x) {
    std::vector<OnePiece> next;
    std::vector<bool> goes_on(open.size());
    for (const auto& [top, bottom] : column) {
      size_t met = open.size(), count = 0;
      for (size_t i = 0; i < open.size(); ++i)
        if (open[i].meets(top, bottom)) met = i, ++count;
      if (count == 1 && std::ranges::count_if(column, [&, piece = &open[met]](const auto& run) {
                          return piece->meets(run.first, run.second);
                        }) == 1) {
        goes_on[met] = true;
        next.push_back(std::move(open[met]));
        next.back().go_to(x, top, bottom);
      } else {
        const auto left = static_cast<double>(x);
        next.push_back({{left, static_cast<double>(top)}, {left, static_cast<double>(bottom)}, top, bottom});
      }
    }
    for (size_t i = 0; i < open.size(); ++i)
      if (!goes_on[i]) all.push_back(open[i].polygon(x));
    open = std::move(next);
    column.clear();
  };
  int64_t at = 0;
  for_each_part([&](int64_t x, int64_t top, int64_t bottom) {
    for (; at < x; ++at) close_column(at);
    column.emplace_back(top, bottom);
  });
  close_column(at);
  close_column(at + 1);
  return all;
}

Mask Mask::from_box(ImageSize size, const Box& box) {
  const std::vector<double> corners{box.x1, box.y1, box.x1, box.y2, box.x2, box.y2, box.x2, box.y1};
  check_coordinates(corners, "its box");
  return from_polygons(size, std::span(&corners, 1));
}

}  // namespace saccade
