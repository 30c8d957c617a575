#include "train/tasks/detection/figures.h"

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

DetectionFigures detection_figures(const GroundTruth& truth, std::span<const Detection> detections,
                                   std::optional<double> threshold, const std::string& source,
                                   const FigureOptions& options) {
  DetectionFigures figures{.coco = evaluate_coco(truth, detections, source, options),
                           .masks = {},
                           .at_50 = detection_curves(truth, detections, 0, source, options),
                           .at_75 = detection_curves(truth, detections, 5, source, options),
                           .confusion = {},
                           .images = {}};
  if (options.iou == IouType::kBoth) {
    FigureOptions of_masks = options;
    of_masks.iou = IouType::kMasks;
    figures.masks = evaluate_coco(truth, detections, source, of_masks);
  }
  figures.threshold = threshold.value_or(std::max(figures.at_50.best.threshold, 0.0));
  figures.confusion = confusion_matrix(truth, detections, figures.threshold, 0.5, &figures.images,
                                       options.iou.value_or(IouType::kBoxes));
  return figures;
}

std::string figures_json(const DetectionFigures& figures) {
  std::string classes;
  for (size_t c = 0; c < figures.at_50.classes.size(); ++c) {
    const ClassCurve& curve = figures.at_50.classes[c];
    classes += fmt::format(
        "{}\n  {{\"category_id\": {}, \"name\": {}, \"objects\": {},\n   \"iou_50\": {},\n   \"iou_75\": {}}}",
        c == 0 ? "" : ",", curve.category_id, json_quote(curve.name), curve.objects, curve_json(curve),
        curve_json(figures.at_75.classes[c]));
  }
  return fmt::format("{{\"coco\": {}, \"threshold\": {}, \"best\": {},\n {},\n \"classes\": [{}]}}\n",
                     coco_json(figures.coco, true, figures.masks ? &*figures.masks : nullptr),
                     figures.threshold, point_json(figures.at_50.best), confusion_json(figures.confusion),
                     classes);
}

}  // namespace saccade
