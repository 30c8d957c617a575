// The order of operations follows cocoeval.py and maskApi.c, so that every comparison with a threshold falls
// the same way; this file is compiled without fused multiply-adds for that reason (CMakeLists.txt).
#include "data/evaluation/coco_eval.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/runtime/parallel.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

constexpr int kAreas = 4;  // all, small, medium, large
constexpr double kAreaLow[kAreas] = {0, 0, 32.0 * 32.0, 96.0 * 96.0};
constexpr double kAreaHigh[kAreas] = {1e10, 32.0 * 32.0, 96.0 * 96.0, 1e10};
constexpr int kMaxDetections = 100;
constexpr int kRecalls = 101;
constexpr uint16_t kAllThresholds = (1u << kCocoThresholds) - 1;

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
const Thresholds& thresholds() {
  static const Thresholds t;
  return t;
}

// Indices of elements ordered by (category, image), file order within; elements of unknown categories are
// left out.
struct Grouped {
  std::vector<uint32_t> order;
  std::vector<uint32_t> category, image;  // of each element in `order`
};

// What matching found out about one detection.
struct Outcome {
  double score;
  uint32_t rank;                                  // by score within its image and category
  std::array<uint16_t, kAreas> hit{}, ignored{};  // a bit a threshold
};

// The (category, image) pairs with objects or detections, and their ranges in the two grouped lists.
struct Cell {
  uint32_t category, image;
  uint32_t truth_begin, truth_end, found_begin, found_end;
  double work() const { return 1.0 + double(truth_end - truth_begin + 1) * double(found_end - found_begin); }
};

// Position of `id` in a sorted list; -1 when absent.
int64_t position(const std::vector<int64_t>& sorted, int64_t id) {
  auto it = std::lower_bound(sorted.begin(), sorted.end(), id);
  return it != sorted.end() && *it == id ? it - sorted.begin() : -1;
}

// Stable sort of `order` by key (values below `count`).
void counting_sort(std::vector<uint32_t>& order, const std::vector<uint32_t>& key, size_t count) {
  std::vector<uint32_t> begin(count + 1, 0), sorted(order.size());
  for (uint32_t i : order) ++begin[key[i] + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  for (uint32_t i : order) sorted[begin[key[i]]++] = i;
  order = std::move(sorted);
}

template <class Items, class Unknown>
Grouped group(const Items& items, const std::vector<int64_t>& images, const std::vector<int64_t>& categories,
              Unknown unknown_image) {
  std::vector<uint32_t> image(items.size()), category(items.size());
  Grouped g;
  g.order.reserve(items.size());
  int64_t last_image = 0, at = -1;  // lists are mostly in runs of one image
  for (size_t i = 0; i < items.size(); ++i) {
    if (at < 0 || items[i].image_id != last_image) at = position(images, items[i].image_id);
    last_image = items[i].image_id;
    if (at < 0) {
      unknown_image(i);
      continue;
    }
    int64_t c = position(categories, items[i].category_id);
    if (c < 0) continue;
    image[i] = static_cast<uint32_t>(at);
    category[i] = static_cast<uint32_t>(c);
    g.order.push_back(static_cast<uint32_t>(i));
  }
  counting_sort(g.order, image, images.size());
  counting_sort(g.order, category, categories.size());
  for (uint32_t i : g.order) {
    g.category.push_back(category[i]);
    g.image.push_back(image[i]);
  }
  return g;
}

std::vector<Cell> make_cells(const Grouped& truth, const Grouped& found) {
  std::vector<Cell> cells;
  uint32_t t = 0, f = 0;
  auto nt = static_cast<uint32_t>(truth.order.size()), nf = static_cast<uint32_t>(found.order.size());
  while (t < nt || f < nf) {
    bool use_truth = f == nf || (t < nt && std::pair(truth.category[t], truth.image[t]) <=
                                               std::pair(found.category[f], found.image[f]));
    Cell c{use_truth ? truth.category[t] : found.category[f],
           use_truth ? truth.image[t] : found.image[f],
           t,
           t,
           f,
           f};
    while (t < nt && truth.category[t] == c.category && truth.image[t] == c.image) ++t;
    while (f < nf && found.category[f] == c.category && found.image[f] == c.image) ++f;
    c.truth_end = t;
    c.found_end = f;
    cells.push_back(c);
  }
  return cells;
}

// bbIou of maskApi.c: of a crowd, the share of the detection that it covers.
double overlap(const std::array<double, 4>& d, const std::array<double, 4>& g, bool crowd) {
  double w = std::min(d[2] + d[0], g[2] + g[0]) - std::max(d[0], g[0]);
  if (w <= 0) return 0;
  double h = std::min(d[3] + d[1], g[3] + g[1]) - std::max(d[1], g[1]);
  if (h <= 0) return 0;
  double both = w * h, area = d[2] * d[3];
  double either = crowd ? area : area + g[2] * g[3] - both;
  return both / either;
}

bool outside(double area, int range) { return area < kAreaLow[range] || area > kAreaHigh[range]; }

// evaluateImg of cocoeval.py for one cell and all area ranges.
class CellMatcher {
 public:
  // truth, found: the cell's objects in file order and detections by descending score (100 at most).
  // objects[a] += how many objects count in area range a.
  void run(std::span<const CocoAnnotation* const> truth, std::span<const Detection* const> found,
           std::span<Outcome> outcomes, std::array<int64_t, kAreas>& objects) {
    size_t G = truth.size(), D = found.size();
    overlaps_.resize(D * G);
    for (size_t d = 0; d < D; ++d)
      for (size_t g = 0; g < G; ++g)
        overlaps_[d * G + g] = overlap(found[d]->bbox, truth[g]->bbox, truth[g]->iscrowd);
    for (int a = 0; a < kAreas; ++a) {
      order_.clear();
      for (size_t g = 0; g < G; ++g)
        if (!truth[g]->iscrowd && !outside(truth[g]->area, a)) order_.push_back(g);
      size_t counted = order_.size();  // those before it count, those behind it are ignored
      objects[static_cast<size_t>(a)] += static_cast<int64_t>(counted);
      for (size_t g = 0; g < G; ++g)
        if (truth[g]->iscrowd || outside(truth[g]->area, a)) order_.push_back(g);
      match(truth, found, outcomes, counted, static_cast<size_t>(a));
    }
  }

 private:
  void match(std::span<const CocoAnnotation* const> truth, std::span<const Detection* const> found,
             std::span<Outcome> outcomes, size_t counted, size_t area) {
    size_t G = truth.size();
    taken_.assign(G, 0);
    for (size_t d = 0; d < found.size(); ++d) {
      bool is_outside = outside(found[d]->bbox[2] * found[d]->bbox[3], static_cast<int>(area));
      uint16_t hit = 0, ignored = 0;
      const double* row = overlaps_.data() + d * G;
      for (int t = 0; t < kCocoThresholds; ++t) {
        auto bit = static_cast<uint16_t>(1u << t);
        double best = std::min(thresholds().iou[t], 1 - 1e-10);
        size_t match = G;
        for (size_t k = 0; k < G; ++k) {
          size_t g = order_[k];
          if ((taken_[g] & bit) && !truth[g]->iscrowd) continue;
          // An ignored object is second choice only.
          if (match < counted && k >= counted) break;
          if (row[g] < best) continue;
          best = row[g];
          match = k;
        }
        if (match == G) {
          if (is_outside) ignored |= bit;
          continue;
        }
        const CocoAnnotation& g = *truth[order_[match]];
        taken_[order_[match]] |= bit;
        if (match >= counted) ignored |= bit;
        // pycocotools notes a match by the annotation's id and so overlooks one with id 0.
        if (g.id != 0) {
          hit |= bit;
        } else if (is_outside) {
          ignored |= bit;
        }
      }
      outcomes[d].hit[area] = hit;
      outcomes[d].ignored[area] = ignored;
    }
  }

  std::vector<double> overlaps_;  // [D, G]
  std::vector<size_t> order_;
  std::vector<uint16_t> taken_;
};

// The figures of one category; -1 where it has no object in the area range.
struct CategoryCurve {
  std::array<int64_t, kAreas> objects{};
  double precision[kAreas][kCocoThresholds];  // mean over the recall thresholds
  double recall[kAreas][kCocoThresholds], recall_1[kCocoThresholds], recall_10[kCocoThresholds];
};

// accumulate of cocoeval.py. `outcomes` are those of one category by descending score.
class Accumulator {
 public:
  void run(const std::vector<Outcome>& outcomes, CategoryCurve& curve) {
    for (int a = 0; a < kAreas; ++a) {
      auto objects = static_cast<double>(curve.objects[static_cast<size_t>(a)]);
      if (curve.objects[static_cast<size_t>(a)] == 0) {
        std::fill_n(curve.precision[a], kCocoThresholds, -1.0);
        std::fill_n(curve.recall[a], kCocoThresholds, -1.0);
        if (a == 0) {
          std::fill_n(curve.recall_1, kCocoThresholds, -1.0);
          std::fill_n(curve.recall_10, kCocoThresholds, -1.0);
        }
        continue;
      }
      count(outcomes, static_cast<size_t>(a));
      for (int t = 0; t < kCocoThresholds; ++t) {
        curve.precision[a][t] = mean_precision(points_[t], objects);
        curve.recall[a][t] = static_cast<double>(hits_[t]) / objects;
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
      uint16_t hit = o.hit[area], ignored = o.ignored[area];
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

  // points[k]: precision where the (k + 1)-th true positive stands. Between true positives precision only
  // falls, so the largest precision at a recall or beyond is found at one of them.
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

  int64_t hits_[kCocoThresholds], hits_1_[kCocoThresholds], hits_10_[kCocoThresholds],
      false_[kCocoThresholds];
  std::vector<double> points_[kCocoThresholds];
};

// Mean over thresholds [begin, end) and those categories that have a value; -1 when none has.
template <class Get>
double mean(const std::vector<CategoryCurve>& curves, int begin, int end, Get get) {
  double sum = 0;
  int64_t n = 0;
  for (int t = begin; t < end; ++t) {
    for (const CategoryCurve& c : curves) {
      double v = get(c, t);
      if (v > -1) sum += v, ++n;
    }
  }
  return n == 0 ? -1 : sum / static_cast<double>(n);
}

void fill_figures(const std::vector<CategoryCurve>& curves, CocoFigures& f) {
  auto ap = [&](int area, int begin, int end) {
    return mean(curves, begin, end, [area](const CategoryCurve& c, int t) { return c.precision[area][t]; });
  };
  auto ar = [&](int area) {
    return mean(curves, 0, kCocoThresholds,
                [area](const CategoryCurve& c, int t) { return c.recall[area][t]; });
  };
  f.AP = ap(0, 0, kCocoThresholds);
  f.AP50 = ap(0, 0, 1);
  f.AP75 = ap(0, 5, 6);
  f.AP_small = ap(1, 0, kCocoThresholds);
  f.AP_medium = ap(2, 0, kCocoThresholds);
  f.AP_large = ap(3, 0, kCocoThresholds);
  f.AR_1 = mean(curves, 0, kCocoThresholds, [](const CategoryCurve& c, int t) { return c.recall_1[t]; });
  f.AR_10 = mean(curves, 0, kCocoThresholds, [](const CategoryCurve& c, int t) { return c.recall_10[t]; });
  f.AR_100 = ar(0);
  f.AR_small = ar(1);
  f.AR_medium = ar(2);
  f.AR_large = ar(3);
  for (int t = 0; t < kCocoThresholds; ++t) f.AP_by_iou[static_cast<size_t>(t)] = ap(0, t, t + 1);
}

CocoClassFigures class_figures(const CategoryCurve& curve, const CocoCategory& category) {
  CocoFigures f;
  fill_figures({curve}, f);
  return {category.id, category.name, curve.objects[0], f.AP,       f.AP50,
          f.AP75,      f.AP_small,    f.AP_medium,      f.AP_large, f.AR_100};
}

// Cuts [0, n) into pieces of about equal work, one or more a thread; f(begin, end).
template <class Work, class F>
void parallel_by_work(size_t n, Work work, F f) {
  double total = 0;
  for (size_t i = 0; i < n; ++i) total += work(i);
  size_t pieces = std::max<size_t>(1, std::min<size_t>(n, static_cast<size_t>(omp_get_max_threads()) * 8));
  std::vector<size_t> begin{0};
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    sum += work(i);
    if (sum >= total * double(begin.size()) / double(pieces) && i + 1 < n) begin.push_back(i + 1);
  }
  begin.push_back(n);
  parallel_for(static_cast<int64_t>(begin.size()) - 1, 1, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p)
      f(begin[static_cast<size_t>(p)], begin[static_cast<size_t>(p) + 1]);
  });
}

}  // namespace

CocoFigures evaluate_coco(const CocoGroundTruth& truth, std::span<const Detection> detections,
                          const std::string& source) {
  CocoFigures figures;
  std::vector<int64_t> images = truth.images, categories;
  std::sort(images.begin(), images.end());
  images.erase(std::unique(images.begin(), images.end()), images.end());
  for (const CocoCategory& c : truth.categories) categories.push_back(c.id);
  std::sort(categories.begin(), categories.end());
  categories.erase(std::unique(categories.begin(), categories.end()), categories.end());

  for (size_t i = 0; i < detections.size(); ++i) {
    const Detection& d = detections[i];
    if (std::isnan(d.score + d.bbox[0] + d.bbox[1] + d.bbox[2] + d.bbox[3]))
      fail_input("{}: entry {} (image {}): has a NaN", source, i + 1, d.image_id);
  }
  Grouped of_truth = group(truth.annotations, images, categories, [](size_t) {});
  Grouped of_found = group(detections, images, categories, [&](size_t i) {
    fail_input("{}: entry {}: image_id {} is not in the annotations", source, i + 1, detections[i].image_id);
  });
  if (size_t left_out = detections.size() - of_found.order.size(); left_out > 0)
    figures.notes.push_back(fmt::format(
        "{}: {} entries left out: their category_id is not in the annotations", source, left_out));
  for (const CocoAnnotation& a : truth.annotations)
    if (a.id == 0)
      figures.notes.push_back(
          "annotation 0: a match with it counts as a false positive, as in pycocotools; number annotations "
          "from 1");

  std::vector<Cell> cells = make_cells(of_truth, of_found);
  std::vector<Outcome> outcomes(of_found.order.size());  // grouped as of_found, by score within a cell
  std::vector<uint32_t> kept(cells.size());              // how many of a cell's outcomes count
  std::vector<std::array<int64_t, kAreas>> objects(cells.size(), std::array<int64_t, kAreas>{});
  parallel_by_work(
      cells.size(), [&](size_t i) { return cells[i].work(); },
      [&](size_t begin, size_t end) {
        CellMatcher matcher;
        std::vector<const CocoAnnotation*> t;
        std::vector<const Detection*> d;
        for (size_t i = begin; i < end; ++i) {
          const Cell& cell = cells[i];
          t.clear();
          d.clear();
          for (uint32_t k = cell.truth_begin; k < cell.truth_end; ++k)
            t.push_back(&truth.annotations[of_truth.order[k]]);
          for (uint32_t k = cell.found_begin; k < cell.found_end; ++k)
            d.push_back(&detections[of_found.order[k]]);
          std::stable_sort(d.begin(), d.end(),
                           [](const Detection* a, const Detection* b) { return a->score > b->score; });
          if (d.size() > kMaxDetections) d.resize(kMaxDetections);
          kept[i] = static_cast<uint32_t>(d.size());
          std::span<Outcome> out(outcomes.data() + cell.found_begin, d.size());
          for (size_t k = 0; k < d.size(); ++k) {
            out[k].score = d[k]->score;
            out[k].rank = static_cast<uint32_t>(k);
          }
          matcher.run(t, d, out, objects[i]);
        }
      });

  std::vector<size_t> first_cell(categories.size() + 1, cells.size());
  for (size_t i = cells.size(); i-- > 0;) first_cell[cells[i].category] = i;
  for (size_t c = categories.size(); c-- > 0;) first_cell[c] = std::min(first_cell[c], first_cell[c + 1]);
  std::vector<CategoryCurve> curves(categories.size());
  auto found_of = [&](size_t c) {
    return first_cell[c] == first_cell[c + 1]
               ? 0u
               : cells[first_cell[c + 1] - 1].found_end - cells[first_cell[c]].found_begin;
  };
  parallel_by_work(
      categories.size(), [&](size_t c) { return 1.0 + found_of(c); },
      [&](size_t begin, size_t end) {
        Accumulator accumulator;
        std::vector<Outcome> sorted;
        for (size_t c = begin; c < end; ++c) {
          sorted.clear();
          for (size_t i = first_cell[c]; i < first_cell[c + 1]; ++i) {
            auto from = outcomes.begin() + cells[i].found_begin;
            sorted.insert(sorted.end(), from, from + kept[i]);
            for (size_t a = 0; a < kAreas; ++a) curves[c].objects[a] += objects[i][a];
          }
          std::stable_sort(sorted.begin(), sorted.end(),
                           [](const Outcome& a, const Outcome& b) { return a.score > b.score; });
          accumulator.run(sorted, curves[c]);
        }
      });

  fill_figures(curves, figures);
  for (size_t c = 0; c < categories.size(); ++c) {
    auto it = std::find_if(truth.categories.begin(), truth.categories.end(),
                           [&](const CocoCategory& k) { return k.id == categories[c]; });
    figures.classes.push_back(class_figures(curves[c], *it));
  }
  return figures;
}

}  // namespace saccade
