#include "data/evaluation/detection_curves.h"

#include <algorithm>

#include "data/evaluation/coco/coco_parts.h"

namespace saccade {
namespace {

struct Scored {
  double score;
  bool is_hit;
};

// `found`: detections by descending score.
template <class Curve>
void add_points(const std::vector<Scored>& found, int64_t objects, Curve& curve) {
  int64_t hits = 0;
  double best = -1;
  for (size_t i = 0; i < found.size(); ++i) {
    hits += found[i].is_hit;
    if (i + 1 < found.size() && found[i + 1].score == found[i].score) continue;
    const auto tp = static_cast<double>(hits), n = static_cast<double>(i + 1),
               all = static_cast<double>(objects);
    curve.scores.push_back(found[i].score);
    curve.precision.push_back(tp / n);
    curve.recall.push_back(objects > 0 ? tp / all : 0);
    const double f1 = 2 * tp / (n + all);
    if (objects == 0 || f1 <= best) continue;
    best = f1;
    curve.best = {found[i].score, f1, tp / n, tp / all};
  }
}

// accumulate of cocoeval.py, for one class and threshold.
std::vector<double> precision_at_recall(const std::vector<Scored>& found, int64_t objects) {
  if (objects == 0) return {};
  std::vector<double> at_hit;  // precision at the (k + 1)-th hit
  double hits = 0, misses = 0;
  for (const Scored& s : found) {
    (s.is_hit ? hits : misses) += 1;
    if (s.is_hit) at_hit.push_back(hits / (misses + hits + 0x1p-52));  // numpy.spacing(1)
  }
  for (size_t k = at_hit.size(); k-- > 1;) at_hit[k - 1] = std::max(at_hit[k - 1], at_hit[k]);
  std::vector<double> out(coco::kRecalls, 0);
  size_t k = 0;
  for (size_t r = 0; r < out.size(); ++r) {
    while (k < at_hit.size() &&
           static_cast<double>(k + 1) / static_cast<double>(objects) < coco::thresholds().recall[r])
      ++k;
    if (k == at_hit.size()) break;
    out[r] = at_hit[k];
  }
  return out;
}

void sort_by_score(std::vector<Scored>& found) {
  std::ranges::stable_sort(found, std::ranges::greater(), &Scored::score);
}

}  // namespace

DetectionCurves detection_curves(const GroundTruth& truth, std::span<const Detection> detections,
                                 int iou_index, const std::string& source, const MetricOptions& options) {
  const std::vector<int64_t> categories = coco::sorted_ids(truth.categories);
  std::vector<std::string> notes;
  const coco::Matches matches = coco::match_detections(
      truth, detections, coco::sorted_ids(truth.images), categories, source,
      {.iou = options.iou, .max_detections = options.max_detections, .areas = {}}, notes);
  const auto bit = static_cast<uint16_t>(1u << iou_index);
  DetectionCurves curves;
  std::vector<Scored> all;
  int64_t all_objects = 0;
  for (size_t c = 0; c < categories.size(); ++c) {
    ClassCurve& curve = curves.classes.emplace_back();
    curve.category_id = categories[c];
    curve.name = std::ranges::find_if(truth.categories, [&](const Category& category) {
                   return category.id == categories[c];
                 })->name;
    std::vector<Scored> found;
    for (size_t i = matches.first_cell[c]; i < matches.first_cell[c + 1]; ++i) {
      const coco::Cell& cell = matches.cells[i];
      curve.objects += matches.objects[i];  // the only range is that of all areas
      for (uint32_t k = 0; k < cell.kept; ++k) {
        const coco::Outcome& o = matches.outcomes[cell.found_begin + k];
        const coco::Found& f = matches.of(o, 0);
        if (!(f.ignored & bit)) found.push_back({o.score, (f.hit & bit) != 0});
      }
    }
    sort_by_score(found);
    add_points(found, curve.objects, curve);
    curve.at_recall = precision_at_recall(found, curve.objects);
    all.insert(all.end(), found.begin(), found.end());
    all_objects += curve.objects;
  }
  sort_by_score(all);
  add_points(all, all_objects, curves);
  return curves;
}

}  // namespace saccade
