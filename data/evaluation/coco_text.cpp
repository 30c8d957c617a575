// COCO's metrics as text.
#include <fmt/format.h>

#include <algorithm>

#include "core/files/text.h"
#include "core/formats/json.h"
#include "data/evaluation/coco_eval.h"

namespace saccade {
namespace {

struct Line {
  const char* key;
  double CocoAverages::*value;
  const char *title, *iou, *area;
  int64_t max_detections;        // kCocoDetections: those of the metrics
  const char* column = nullptr;  // of the table and json of classes, where it is part of them
};
constexpr const char* kPrecision = "Average Precision  (AP)";
constexpr const char* kRecall = "Average Recall     (AR)";
constexpr Line kLines[] = {
    {"AP", &CocoAverages::AP, kPrecision, "0.50:0.95", "all", 100, "AP"},
    {"AP50", &CocoAverages::AP50, kPrecision, "0.50", "all", 100, "AP50"},
    {"AP75", &CocoAverages::AP75, kPrecision, "0.75", "all", 100, "AP75"},
    {"AP_small", &CocoAverages::AP_small, kPrecision, "0.50:0.95", "small", 100, "small"},
    {"AP_medium", &CocoAverages::AP_medium, kPrecision, "0.50:0.95", "medium", 100, "medium"},
    {"AP_large", &CocoAverages::AP_large, kPrecision, "0.50:0.95", "large", 100, "large"},
    {"AR_1", &CocoAverages::AR_1, kRecall, "0.50:0.95", "all", 1},
    {"AR_10", &CocoAverages::AR_10, kRecall, "0.50:0.95", "all", 10},
    {"AR_100", &CocoAverages::AR_100, kRecall, "0.50:0.95", "all", 100, "AR100"},
    {"AR_small", &CocoAverages::AR_small, kRecall, "0.50:0.95", "small", 100},
    {"AR_medium", &CocoAverages::AR_medium, kRecall, "0.50:0.95", "medium", 100},
    {"AR_large", &CocoAverages::AR_large, kRecall, "0.50:0.95", "large", 100},
};

int64_t max_detections(const Line& line, const CocoMetrics& metrics) {
  return line.max_detections == kCocoDetections ? metrics.max_detections : line.max_detections;
}
// Only AR_100 is named by the number.
std::string name_of(const Line& line, const CocoMetrics& metrics) {
  return line.value == &CocoAverages::AR_100 ? fmt::format("AR_{}", metrics.max_detections) : line.key;
}

// "-" where there is no object of the kind.
std::string cell(double v) { return v < 0 ? "-" : fmt::format("{:.3f}", v); }

}  // namespace

Metrics named_metrics(const CocoMetrics& metrics) {
  Metrics named;
  for (const Line& l : kLines) named.emplace_back(name_of(l, metrics), metrics.*l.value);
  return named;
}

std::vector<CocoFigure> coco_figures(const CocoMetrics& metrics) {
  std::vector<CocoFigure> figures;
  for (const Line& l : kLines)
    figures.push_back(
        {name_of(l, metrics), l.title, l.iou, l.area, max_detections(l, metrics), metrics.*l.value});
  return figures;
}

std::string coco_table(const CocoMetrics& metrics) {
  std::string text;
  for (const Line& l : kLines)
    text += fmt::format(" {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3d} ] = {:0.3f}\n", l.title, l.iou,
                        l.area, max_detections(l, metrics), metrics.*l.value);
  return text;
}

std::string coco_class_table(const CocoMetrics& metrics) {
  size_t width = 8;
  std::vector<std::string> names;  // as they may be printed
  for (const CocoClassMetrics& c : metrics.classes) {
    names.push_back(printable(c.name));
    width = std::max(width, names.back().size());
  }
  std::string text = fmt::format("{:<{}} {:>8}", "category", width, "objects");
  for (const Line& l : kLines)
    if (l.column)
      text +=
          fmt::format(" {:>7}", l.value == &CocoAverages::AR_100 ? fmt::format("AR{}", metrics.max_detections)
                                                                 : l.column);
  for (const CocoClassMetrics& c : metrics.classes) {
    text += fmt::format("\n{:<{}} {:>8}", names[static_cast<size_t>(&c - metrics.classes.data())], width,
                        c.objects);
    for (const Line& l : kLines)
      if (l.column) text += fmt::format(" {:>7}", cell(c.*l.value));
  }
  return text + "\n";
}

std::string coco_json(const CocoMetrics& metrics, bool with_classes) {
  std::string text = "{";
  for (const Line& l : kLines)
    text += fmt::format("{}\n  \"{}\": {}", &l == kLines ? "" : ",", name_of(l, metrics), metrics.*l.value);
  if (with_classes) {
    text += fmt::format(",\n  \"AP_by_iou\": [{}],\n  \"per_class\": [", fmt::join(metrics.AP_by_iou, ", "));
    for (const CocoClassMetrics& c : metrics.classes) {
      text +=
          fmt::format("{}\n    {{\"category_id\": {}, \"name\": {}, \"objects\": {}",
                      &c == metrics.classes.data() ? "" : ",", c.category_id, json_quote(c.name), c.objects);
      for (const Line& l : kLines)
        if (l.column) text += fmt::format(", \"{}\": {}", name_of(l, metrics), c.*l.value);
      text += "}";
    }
    text += "\n  ]";
  }
  return text + "\n}\n";
}

}  // namespace saccade
