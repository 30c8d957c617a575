// The metrics over all categories and of each: summarize of cocoeval.py.
#include "data/evaluation/coco/coco_eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "data/evaluation/coco/coco_parts.h"
#include "data/evaluation/evaluators.h"

namespace saccade {
namespace {

using coco::CategoryCurve;

// Returns the mean over thresholds [begin, end) and the categories that have a value; -1 if none has.
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

// Returns the average precision over the thresholds [begin, end).
double precision(const std::vector<CategoryCurve>& curves, size_t area, int begin = 0,
                 int end = kCocoThresholds) {
  return mean(curves, begin, end,
              [area](const CategoryCurve& c, int t) { return c.areas[area].precision[t]; });
}
template <class Get>
double recall(const std::vector<CategoryCurve>& curves, Get get) {
  return mean(curves, 0, kCocoThresholds, get);
}

// Computes the averages for all areas and for this many area ranges.
CocoAverages averages(const std::vector<CategoryCurve>& curves, size_t areas) {
  auto by_area = [](size_t area) {
    return [area](const CategoryCurve& c, int t) { return c.areas[area].recall[t]; };
  };
  CocoAverages out{.AP = precision(curves, 0),
                   .AP50 = precision(curves, 0, 0, 1),
                   .AP75 = precision(curves, 0, 5, 6),
                   .AR_1 = recall(curves, [](const CategoryCurve& c, int t) { return c.recall_1[t]; }),
                   .AR_10 = recall(curves, [](const CategoryCurve& c, int t) { return c.recall_10[t]; }),
                   .AR_100 = recall(curves, by_area(0)),
                   .AP_of_areas = {},
                   .AR_of_areas = {}};
  for (size_t a = 1; a <= areas; ++a) {
    out.AP_of_areas.push_back(precision(curves, a));
    out.AR_of_areas.push_back(recall(curves, by_area(a)));
  }
  return out;
}

// Distinguishes classes with the same name by their ids.
Metrics class_metrics(const CocoMetrics& metrics) {
  std::map<std::string, int> uses;
  for (const CocoClassMetrics& c : metrics.classes) ++uses[c.name];
  Metrics named;
  for (const CocoClassMetrics& c : metrics.classes)
    if (c.AP >= 0)
      named.emplace_back(uses[c.name] > 1 ? fmt::format("AP/{} ({})", c.name, c.category_id) : "AP/" + c.name,
                         c.AP);
  return named;
}

class CocoEvaluator final : public Evaluator {
 public:
  explicit CocoEvaluator(const EvaluatorSpec::Options& options) : options_(options) {}

  void add(Predicted prediction) override {
    if (detections_.empty())
      detections_ = std::move(prediction.detections);
    else
      std::ranges::move(prediction.detections, std::back_inserter(detections_));
  }
  std::string state() const override { return to_bytes(detections_); }
  void merge(std::string_view state) override { add({.detections = detections_of(state)}); }
  Evaluation result() const override {
    MetricOptions metric_options = options_.metric_options;
    const CocoMetrics first = evaluate(metric_options);
    Evaluation all{named_metrics(first), class_metrics(first), table(first), coco_json(first, true),
                   first.notes};
    if (metric_options.iou != IouType::kBoth) return all;
    metric_options.iou = IouType::kMasks;
    const CocoMetrics masks = evaluate(metric_options);
    for (auto& [name, value] : named_metrics(masks)) all.metrics.emplace_back(kOfMasks + name, value);
    for (auto& [name, value] : class_metrics(masks)) all.of_classes.emplace_back(kOfMasks + name, value);
    all.table = "boxes\n" + all.table + "\nmasks\n" + table(masks);
    all.json = coco_json(first, true, &masks);
    return all;
  }

 private:
  CocoMetrics evaluate(const MetricOptions& metric_options) const {
    return evaluate_coco(*options_.truth, detections_, options_.source, metric_options);
  }
  std::string table(const CocoMetrics& metrics) const {
    return coco_table(metrics) + (options_.per_class ? "\n" + coco_class_table(metrics) : "");
  }

  EvaluatorSpec::Options options_;
  std::vector<Detection> detections_;
};

[[maybe_unused]] const bool coco_evaluator_registered =
    evaluators("detection")
        .add({.name = "coco",
              .summary = "average precision and recall of boxes or masks, as pycocotools computes them",
              .primary = {"AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large"},
              .start = [](const EvaluatorSpec::Options& options) -> std::unique_ptr<Evaluator> {
                return std::make_unique<CocoEvaluator>(options);
              },
              .is_usual = true,
              .has_masks = true});

}  // namespace

CocoMetrics evaluate_coco(const GroundTruth& truth, std::span<const Detection> detections,
                          const std::string& source, const MetricOptions& options) {
  const std::vector<int64_t> images = coco::sorted_ids(truth.images),
                             categories = coco::sorted_ids(truth.categories);
  CocoMetrics metrics;
  metrics.max_detections = options.max_detections.value_or(kCocoDetections);
  for (const AreaRange& range : options.areas) metrics.areas.push_back(range.name);
  const std::vector<CategoryCurve> curves = coco::accumulate(
      coco::match_detections(truth, detections, images, categories, source, options, metrics.notes));
  static_cast<CocoAverages&>(metrics) = averages(curves, options.areas.size());
  for (int t = 0; t < kCocoThresholds; ++t)
    metrics.AP_by_iou[static_cast<size_t>(t)] = precision(curves, 0, t, t + 1);
  std::vector<const Category*> by_id;
  for (const Category& c : truth.categories) by_id.push_back(&c);
  std::ranges::stable_sort(by_id, {}, &Category::id);
  for (size_t c = 0; c < categories.size(); ++c) {
    auto it = std::ranges::lower_bound(by_id, categories[c], {}, &Category::id);
    metrics.classes.push_back(
        {averages({curves[c]}, options.areas.size()), (*it)->id, (*it)->name, curves[c].areas[0].objects});
  }
  return metrics;
}

}  // namespace saccade
