// The steps of the evaluator: coco_match.cpp, coco_accumulate.cpp, and the summary in coco_eval.cpp. Their
// order of operations follows cocoeval.py and maskApi.c, so that every comparison with a threshold falls the
// same way; their files are compiled without fused multiply-adds for that reason (CMakeLists.txt).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/runtime/parallel.h"
#include "data/evaluation/coco/coco_eval.h"

namespace saccade::coco {

inline constexpr int kRecalls = 101;

// numpy.linspace(0.5, 0.95, 10) and (0, 1, 101), bit for bit
struct Thresholds {
  double iou[kCocoThresholds], recall[kRecalls];
  Thresholds() {
    double step = (0.95 - 0.5) / (kCocoThresholds - 1);
    for (int t = 0; t < kCocoThresholds; ++t) iou[t] = t * step + 0.5;
    iou[kCocoThresholds - 1] = 0.95;
    for (int r = 0; r < kRecalls; ++r) recall[r] = r * (1.0 / (kRecalls - 1));
    recall[kRecalls - 1] = 1;
  }
};
inline const Thresholds& thresholds() {
  static const Thresholds t;
  return t;
}

// The matching result of one detection against the objects of an area range.
struct Found {
  uint16_t hit = 0, ignored = 0;  // one bit for each threshold
};
struct Outcome {
  double score;
  uint32_t rank;   // by score within its image and category
  uint32_t place;  // index in Matches::outcomes
};

// A (category, image) pair with objects or detections, as ranges in the two lists ordered by category and
// image.
struct Cell {
  uint32_t category, image;
  uint32_t truth_begin, truth_end, found_begin, found_end;
  uint32_t kept = 0;  // number of its detections that count, the best by score
  double work() const { return 1.0 + double(truth_end - truth_begin + 1) * double(found_end - found_begin); }
};

struct Matches {
  std::vector<Cell> cells;         // by category, then image
  std::vector<size_t> first_cell;  // cells of category c: [first_cell[c], first_cell[c + 1])
  std::vector<Outcome> outcomes;   // those of cell i start at found_begin, by descending score
  size_t areas = 1;                // area ranges: all, then those of MetricOptions
  std::vector<Found> found;        // [outcomes, areas]
  std::vector<int64_t> objects;    // [cells, areas]: number of objects that count

  const Found& of(const Outcome& outcome, size_t area) const { return found[outcome.place * areas + area]; }
};

// The metrics of one category; -1 if it has no object in the area range.
struct AreaCurve {
  int64_t objects = 0;
  double precision[kCocoThresholds];  // mean over the recall thresholds
  double recall[kCocoThresholds];
};
struct CategoryCurve {
  std::vector<AreaCurve> areas;  // as in Matches
  double recall_1[kCocoThresholds], recall_10[kCocoThresholds];
};

// `categories` and `images` are sorted ids. Throws InputError and adds notes as evaluate_coco does.
Matches match_detections(const GroundTruth& truth, std::span<const Detection> detections,
                         const std::vector<int64_t>& images, const std::vector<int64_t>& categories,
                         const std::string& source, const MetricOptions& options,
                         std::vector<std::string>& notes);
std::vector<CategoryCurve> accumulate(const Matches& matches);

// Returns the ids in ascending order, each once.
template <class Items>
std::vector<int64_t> sorted_ids(const Items& items) {
  std::vector<int64_t> ids;
  for (const auto& item : items) ids.push_back(item.id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// Cuts [0, n) into chunks of about equal work, one or more per thread, and calls f(begin, end).
template <class Work, class F>
void parallel_by_work(size_t n, Work work, F f) {
  double total = 0;
  for (size_t i = 0; i < n; ++i) total += work(i);
  size_t chunks = std::max<size_t>(1, std::min<size_t>(n, static_cast<size_t>(thread_count()) * 8));
  std::vector<size_t> begin{0};
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    sum += work(i);
    if (sum >= total * double(begin.size()) / double(chunks) && i + 1 < n) begin.push_back(i + 1);
  }
  begin.push_back(n);
  parallel_for(static_cast<int64_t>(begin.size()) - 1, 1, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p)
      f(begin[static_cast<size_t>(p)], begin[static_cast<size_t>(p) + 1]);
  });
}

}  // namespace saccade::coco
