// Precision and recall of each category: accumulate of cocoeval.py.
#include "data/evaluation/coco/coco_parts.h"

namespace saccade::coco {
namespace {

constexpr uint16_t kAllThresholds = (1u << kCocoThresholds) - 1;

// `outcomes` are those of one category by descending score.
class Accumulator {
 public:
  explicit Accumulator(const Matches& matches) : matches_(matches) {}

  void run(const std::vector<Outcome>& outcomes, CategoryCurve& curve) {
    for (size_t a = 0; a < curve.areas.size(); ++a) {
      AreaCurve& area = curve.areas[a];
      const auto objects = static_cast<double>(area.objects);
      if (area.objects == 0) {
        std::fill_n(area.precision, kCocoThresholds, -1.0);
        std::fill_n(area.recall, kCocoThresholds, -1.0);
        if (a == 0) {
          std::fill_n(curve.recall_1, kCocoThresholds, -1.0);
          std::fill_n(curve.recall_10, kCocoThresholds, -1.0);
        }
        continue;
      }
      count(outcomes, a);
      for (int t = 0; t < kCocoThresholds; ++t) {
        area.precision[t] = mean_precision(points_[t], objects);
        area.recall[t] = static_cast<double>(hits_[t]) / objects;
        if (a == 0) {
          curve.recall_1[t] = static_cast<double>(hits_1_[t]) / objects;
          curve.recall_10[t] = static_cast<double>(hits_10_[t]) / objects;
        }
      }
    }
  }

 private:
  void count(const std::vector<Outcome>& outcomes, size_t area) {
    for (int t = 0; t < kCocoThresholds; ++t) {
      hits_[t] = hits_1_[t] = hits_10_[t] = false_[t] = 0;
      points_[t].clear();
    }
    for (const Outcome& o : outcomes) {
      const auto [hit, ignored] = matches_.of(o, area);
      if (ignored == kAllThresholds) continue;
      for (int t = 0; t < kCocoThresholds; ++t) {
        auto bit = static_cast<uint16_t>(1u << t);
        if (ignored & bit) continue;
        if (hit & bit) {
          ++hits_[t];
          hits_1_[t] += o.rank < 1;
          hits_10_[t] += o.rank < 10;
          double tp = static_cast<double>(hits_[t]), fp = static_cast<double>(false_[t]);
          points_[t].push_back(tp / (fp + tp + 0x1p-52));  // numpy.spacing(1)
        } else {
          ++false_[t];
        }
      }
    }
  }

  // points[k]: the precision at the (k + 1)-th true positive. Between true positives precision only falls, so
  // the largest precision at a recall or beyond is found at one of them.
  static double mean_precision(std::vector<double>& points, double objects) {
    for (size_t k = points.size(); k-- > 1;) points[k - 1] = std::max(points[k - 1], points[k]);
    double sum = 0;
    size_t k = 0;
    for (double recall : thresholds().recall) {
      // The first point whose recall reaches the threshold.
      while (k < points.size() && static_cast<double>(k + 1) / objects < recall) ++k;
      if (k == points.size()) break;
      sum += points[k];
    }
    return sum / kRecalls;
  }

  const Matches& matches_;
  int64_t hits_[kCocoThresholds], hits_1_[kCocoThresholds], hits_10_[kCocoThresholds],
      false_[kCocoThresholds];
  std::vector<double> points_[kCocoThresholds];
};

}  // namespace

std::vector<CategoryCurve> accumulate(const Matches& matches) {
  const std::vector<Cell>& cells = matches.cells;
  const std::vector<size_t>& first = matches.first_cell;
  std::vector<CategoryCurve> curves(first.size() - 1);
  auto found_of = [&](size_t c) {
    return first[c] == first[c + 1] ? 0u : cells[first[c + 1] - 1].found_end - cells[first[c]].found_begin;
  };
  parallel_by_work(
      curves.size(), [&](size_t c) { return 1.0 + found_of(c); },
      [&](size_t begin, size_t end) {
        Accumulator accumulator(matches);
        std::vector<Outcome> sorted;
        for (size_t c = begin; c < end; ++c) {
          sorted.clear();
          curves[c].areas.resize(matches.areas);
          for (size_t i = first[c]; i < first[c + 1]; ++i) {
            auto from = matches.outcomes.begin() + cells[i].found_begin;
            sorted.insert(sorted.end(), from, from + cells[i].kept);
            for (size_t a = 0; a < matches.areas; ++a)
              curves[c].areas[a].objects += matches.objects[i * matches.areas + a];
          }
          std::ranges::stable_sort(sorted, std::ranges::greater(), &Outcome::score);
          accumulator.run(sorted, curves[c]);
        }
      });
  return curves;
}

}  // namespace saccade::coco
