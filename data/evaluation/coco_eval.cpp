// The metrics of all categories and of each: summarize of cocoeval.py.
#include "data/evaluation/coco_eval.h"

#include <algorithm>

#include "data/evaluation/coco_parts.h"
#include "data/evaluation/evaluators.h"

namespace saccade {
namespace {

using coco::CategoryCurve;

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

// Classes and notes are left as they are.
void summarize(const std::vector<CategoryCurve>& curves, CocoMetrics& f) {
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

CocoClassMetrics class_metrics(const CategoryCurve& curve, const Category& category) {
  CocoMetrics f;
  summarize({curve}, f);
  return {category.id, category.name, curve.objects[0], f.AP,       f.AP50,
          f.AP75,      f.AP_small,    f.AP_medium,      f.AP_large, f.AR_100};
}

// Ascending, each once.
void sort_ids(std::vector<int64_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

[[maybe_unused]] const bool registered = detection_evaluators().add(
    {.name = "coco",
     .summary = "average precision and recall of boxes, as pycocotools computes them",
     .primary = {"AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large"},
     .evaluate =
         [](const GroundTruth& truth, std::span<const Detection> detections,
            const DetectionEvaluator::Options& options) {
           CocoMetrics metrics = evaluate_coco(truth, detections, options.source);
           std::string table = coco_table(metrics);
           if (options.per_class) table += "\n" + coco_class_table(metrics);
           return Evaluation{named_metrics(metrics), table, coco_json(metrics, options.per_class),
                             metrics.notes};
         },
     .file = __FILE__});

}  // namespace

CocoMetrics evaluate_coco(const GroundTruth& truth, std::span<const Detection> detections,
                          const std::string& source) {
  std::vector<int64_t> images, categories;
  for (const ImageInfo& image : truth.images) images.push_back(image.id);
  for (const Category& c : truth.categories) categories.push_back(c.id);
  sort_ids(images);
  sort_ids(categories);
  CocoMetrics metrics;
  std::vector<CategoryCurve> curves =
      coco::accumulate(coco::match_detections(truth, detections, images, categories, source, metrics.notes));
  summarize(curves, metrics);
  for (size_t c = 0; c < categories.size(); ++c) {
    auto it = std::find_if(truth.categories.begin(), truth.categories.end(),
                           [&](const Category& k) { return k.id == categories[c]; });
    metrics.classes.push_back(class_metrics(curves[c], *it));
  }
  return metrics;
}

}  // namespace saccade
