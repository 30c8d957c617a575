// COCO's metrics as text.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/files/text.h"
#include "core/formats/json.h"
#include "data/evaluation/coco/coco_eval.h"

namespace saccade {
namespace {

struct Line {
  std::string key;
  const char *title, *iou;
  std::string area;
  int64_t max_detections;
  std::string column;  // of the table and json of classes; "" if it is not part of them
  std::function<double(const CocoAverages&)> value;
};

// In pycocotools' order. The name AR_100 depends on the number of detections.
std::vector<Line> lines_of(const CocoMetrics& metrics) {
  constexpr const char *kPrecision = "Average Precision  (AP)", *kRecall = "Average Recall     (AR)",
                       *kMean = "0.50:0.95";
  const int64_t most = metrics.max_detections;
  std::vector<Line> lines{
      {"AP", kPrecision, kMean, "all", most, "AP", [](const CocoAverages& m) { return m.AP; }},
      {"AP50", kPrecision, "0.50", "all", most, "AP50", [](const CocoAverages& m) { return m.AP50; }},
      {"AP75", kPrecision, "0.75", "all", most, "AP75", [](const CocoAverages& m) { return m.AP75; }}};
  const auto add_areas = [&](const char* key, const char* title, std::vector<double> CocoAverages::*values,
                             bool is_column) {
    for (size_t a = 0; a < metrics.areas.size(); ++a)
      lines.push_back({key + metrics.areas[a], title, kMean, metrics.areas[a], most,
                       is_column ? metrics.areas[a] : "",
                       [values, a](const CocoAverages& m) { return (m.*values)[a]; }});
  };
  add_areas("AP_", kPrecision, &CocoAverages::AP_of_areas, true);
  lines.push_back({"AR_1", kRecall, kMean, "all", 1, "", [](const CocoAverages& m) { return m.AR_1; }});
  lines.push_back({"AR_10", kRecall, kMean, "all", 10, "", [](const CocoAverages& m) { return m.AR_10; }});
  lines.push_back({fmt::format("AR_{}", most), kRecall, kMean, "all", most, fmt::format("AR{}", most),
                   [](const CocoAverages& m) { return m.AR_100; }});
  add_areas("AR_", kRecall, &CocoAverages::AR_of_areas, false);
  return lines;
}

// "-" if there is no object of the kind.
std::string cell(double v) { return v < 0 ? "-" : fmt::format("{:.3f}", v); }

}  // namespace

Metrics named_metrics(const CocoMetrics& metrics) {
  Metrics named;
  for (const Line& l : lines_of(metrics)) named.emplace_back(l.key, l.value(metrics));
  return named;
}

std::vector<CocoMetric> coco_metric_rows(const CocoMetrics& metrics) {
  std::vector<CocoMetric> rows;
  for (const Line& l : lines_of(metrics))
    rows.push_back({l.key, l.title, l.iou, l.area, l.max_detections, l.value(metrics)});
  return rows;
}

std::string coco_table(const CocoMetrics& metrics) {
  std::string text;
  for (const Line& l : lines_of(metrics))
    text += fmt::format(" {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3d} ] = {:0.3f}\n", l.title, l.iou,
                        l.area, l.max_detections, l.value(metrics));
  return text;
}

std::string coco_class_table(const CocoMetrics& metrics) {
  size_t width = 8;
  std::vector<std::string> names;  // in printable form
  for (const CocoClassMetrics& c : metrics.classes) {
    names.push_back(printable(c.name));
    width = std::max(width, names.back().size());
  }
  std::vector<Line> lines = lines_of(metrics);
  std::erase_if(lines, [](const Line& l) { return l.column.empty(); });
  const auto width_of = [](const Line& l) { return std::max<size_t>(7, l.column.size()); };
  std::string text = fmt::format("{:<{}} {:>8}", "category", width, "objects");
  for (const Line& l : lines) text += fmt::format(" {:>{}}", l.column, width_of(l));
  for (const CocoClassMetrics& c : metrics.classes) {
    text += fmt::format("\n{:<{}} {:>8}", names[static_cast<size_t>(&c - metrics.classes.data())], width,
                        c.objects);
    for (const Line& l : lines) text += fmt::format(" {:>{}}", cell(l.value(c)), width_of(l));
  }
  return text + "\n";
}

std::string coco_json(const CocoMetrics& metrics, bool with_classes, const CocoMetrics* masks) {
  const std::vector<Line> lines = lines_of(metrics);
  std::string text = "{";
  auto add = [&](const std::string& prefix, const CocoMetrics& of) {
    for (const Line& l : lines)
      text += fmt::format("{}\n  \"{}{}\": {}", text == "{" ? "" : ",", prefix, l.key, l.value(of));
    if (with_classes)
      text += fmt::format(",\n  \"{}AP_by_iou\": [{}]", prefix, fmt::join(of.AP_by_iou, ", "));
  };
  add("", metrics);
  if (masks != nullptr) add(kOfMasks, *masks);
  if (with_classes) {
    text += ",\n  \"per_class\": [";
    for (size_t k = 0; k < metrics.classes.size(); ++k) {
      const CocoClassMetrics& c = metrics.classes[k];
      text += fmt::format("{}\n    {{\"category_id\": {}, \"name\": {}, \"objects\": {}", k == 0 ? "" : ",",
                          c.category_id, json_quote(c.name), c.objects);
      auto add_class = [&](const char* prefix, const CocoAverages& of) {
        for (const Line& l : lines)
          if (!l.column.empty()) text += fmt::format(", \"{}{}\": {}", prefix, l.key, l.value(of));
      };
      add_class("", c);
      if (masks != nullptr) add_class(kOfMasks, masks->classes.at(k));
      text += "}";
    }
    text += "\n  ]";
  }
  return text + "\n}\n";
}

}  // namespace saccade
