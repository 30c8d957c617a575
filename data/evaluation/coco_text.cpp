// COCO's metrics as text.
#include <fmt/format.h>

#include <algorithm>

#include "core/formats/json.h"
#include "data/evaluation/coco_eval.h"

namespace saccade {
namespace {

struct Line {
  const char* key;
  double CocoMetrics::*value;
  const char *title, *type, *iou, *area;
  int max_detections;
};
constexpr const char* kPrecision = "Average Precision";
constexpr const char* kRecall = "Average Recall";
constexpr Line kLines[] = {
    {"AP", &CocoMetrics::AP, kPrecision, "(AP)", "0.50:0.95", "all", 100},
    {"AP50", &CocoMetrics::AP50, kPrecision, "(AP)", "0.50", "all", 100},
    {"AP75", &CocoMetrics::AP75, kPrecision, "(AP)", "0.75", "all", 100},
    {"AP_small", &CocoMetrics::AP_small, kPrecision, "(AP)", "0.50:0.95", "small", 100},
    {"AP_medium", &CocoMetrics::AP_medium, kPrecision, "(AP)", "0.50:0.95", "medium", 100},
    {"AP_large", &CocoMetrics::AP_large, kPrecision, "(AP)", "0.50:0.95", "large", 100},
    {"AR_1", &CocoMetrics::AR_1, kRecall, "(AR)", "0.50:0.95", "all", 1},
    {"AR_10", &CocoMetrics::AR_10, kRecall, "(AR)", "0.50:0.95", "all", 10},
    {"AR_100", &CocoMetrics::AR_100, kRecall, "(AR)", "0.50:0.95", "all", 100},
    {"AR_small", &CocoMetrics::AR_small, kRecall, "(AR)", "0.50:0.95", "small", 100},
    {"AR_medium", &CocoMetrics::AR_medium, kRecall, "(AR)", "0.50:0.95", "medium", 100},
    {"AR_large", &CocoMetrics::AR_large, kRecall, "(AR)", "0.50:0.95", "large", 100},
};

// "-" where there is no object of the kind.
std::string cell(double v) { return v < 0 ? "-" : fmt::format("{:.3f}", v); }

}  // namespace

Metrics named_metrics(const CocoMetrics& metrics) {
  Metrics named;
  for (const Line& l : kLines) named.emplace_back(l.key, metrics.*l.value);
  return named;
}

std::string coco_table(const CocoMetrics& metrics) {
  std::string text;
  for (const Line& l : kLines)
    text += fmt::format(" {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3d} ] = {:0.3f}\n", l.title,
                        l.type, l.iou, l.area, l.max_detections, metrics.*l.value);
  return text;
}

std::string coco_class_table(const CocoMetrics& metrics) {
  size_t width = 8;
  for (const CocoClassMetrics& c : metrics.classes) width = std::max(width, c.name.size());
  std::string text = fmt::format("{:<{}} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}\n", "category",
                                 width, "objects", "AP", "AP50", "AP75", "small", "medium", "large", "AR100");
  for (const CocoClassMetrics& c : metrics.classes)
    text += fmt::format("{:<{}} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}\n", c.name, width, c.objects,
                        cell(c.AP), cell(c.AP50), cell(c.AP75), cell(c.AP_small), cell(c.AP_medium),
                        cell(c.AP_large), cell(c.AR_100));
  return text;
}

std::string coco_json(const CocoMetrics& metrics, bool with_classes) {
  std::string text = "{";
  for (const Line& l : kLines)
    text += fmt::format("{}\n  \"{}\": {}", &l == kLines ? "" : ",", l.key, metrics.*l.value);
  if (with_classes) {
    text += fmt::format(",\n  \"AP_by_iou\": [{}],\n  \"per_class\": [", fmt::join(metrics.AP_by_iou, ", "));
    for (const CocoClassMetrics& c : metrics.classes)
      text += fmt::format(
          "{}\n    {{\"category_id\": {}, \"name\": {}, \"objects\": {}, \"AP\": {}, \"AP50\": {}, "
          "\"AP75\": {}, \"AP_small\": {}, \"AP_medium\": {}, \"AP_large\": {}, \"AR_100\": {}}}",
          &c == metrics.classes.data() ? "" : ",", c.category_id, json_quote(c.name), c.objects, c.AP, c.AP50,
          c.AP75, c.AP_small, c.AP_medium, c.AP_large, c.AR_100);
    text += "\n  ]";
  }
  return text + "\n}\n";
}

}  // namespace saccade
