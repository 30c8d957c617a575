#include "train/tasks/detection/detection_metrics.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/formats/json.h"
#include "train/report/evaluation_sections.h"

namespace saccade {
namespace {

std::string point_json(const OperatingPoint& p) {
  return fmt::format("{{\"threshold\": {}, \"f1\": {}, \"precision\": {}, \"recall\": {}}}", p.threshold,
                     p.f1, p.precision, p.recall);
}

std::string curve_json(const ClassCurve& c) {
  return fmt::format(
      "{{\"scores\": [{}], \"precision\": [{}], \"recall\": [{}], \"precision_at_recall\": [{}], \"best\": {}}}",
      fmt::join(c.scores, ", "), fmt::join(c.precision, ", "), fmt::join(c.recall, ", "),
      fmt::join(c.at_recall, ", "), point_json(c.best));
}

}  // namespace

DetectionMetrics detection_metrics(const GroundTruth& truth, std::span<const Detection> detections,
                                   std::optional<double> threshold, const std::string& source,
                                   const MetricOptions& options) {
  DetectionMetrics metrics{.coco = evaluate_coco(truth, detections, source, options),
                           .masks = {},
                           .at_50 = detection_curves(truth, detections, 0, source, options),
                           .at_75 = detection_curves(truth, detections, 5, source, options),
                           .confusion = {},
                           .images = {}};
  if (options.iou == IouType::kBoth) {
    MetricOptions of_masks = options;
    of_masks.iou = IouType::kMasks;
    metrics.masks = evaluate_coco(truth, detections, source, of_masks);
  }
  metrics.threshold = threshold.value_or(std::max(metrics.at_50.best.threshold, 0.0));
  metrics.confusion = confusion_matrix(truth, detections, metrics.threshold, 0.5, &metrics.images,
                                       options.iou.value_or(IouType::kBoxes));
  return metrics;
}

std::string metrics_json(const DetectionMetrics& metrics) {
  std::string classes;
  for (size_t c = 0; c < metrics.at_50.classes.size(); ++c) {
    const ClassCurve& curve = metrics.at_50.classes[c];
    classes += fmt::format(
        "{}\n  {{\"category_id\": {}, \"name\": {}, \"objects\": {},\n   \"iou_50\": {},\n   \"iou_75\": {}}}",
        c == 0 ? "" : ",", curve.category_id, json_quote(curve.name), curve.objects, curve_json(curve),
        curve_json(metrics.at_75.classes[c]));
  }
  return fmt::format("{{\"coco\": {}, \"threshold\": {}, \"best\": {},\n {},\n \"classes\": [{}]}}\n",
                     coco_json(metrics.coco, true, metrics.masks ? &*metrics.masks : nullptr),
                     metrics.threshold, point_json(metrics.at_50.best), confusion_json(metrics.confusion),
                     classes);
}

}  // namespace saccade
