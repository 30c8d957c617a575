// The evaluator's figures as text, and its input from files.
#include <fmt/format.h>

#include <algorithm>

#include "core/formats/json.h"
#include "data/evaluation/coco_eval.h"
#include "data/formats/coco_dataset.h"

namespace saccade {
namespace {

struct Line {
  const char* key;
  double CocoFigures::*value;
  const char *title, *type, *iou, *area;
  int max_detections;
};
constexpr const char* kPrecision = "Average Precision";
constexpr const char* kRecall = "Average Recall";
constexpr Line kLines[] = {
    {"AP", &CocoFigures::AP, kPrecision, "(AP)", "0.50:0.95", "all", 100},
    {"AP50", &CocoFigures::AP50, kPrecision, "(AP)", "0.50", "all", 100},
    {"AP75", &CocoFigures::AP75, kPrecision, "(AP)", "0.75", "all", 100},
    {"AP_small", &CocoFigures::AP_small, kPrecision, "(AP)", "0.50:0.95", "small", 100},
    {"AP_medium", &CocoFigures::AP_medium, kPrecision, "(AP)", "0.50:0.95", "medium", 100},
    {"AP_large", &CocoFigures::AP_large, kPrecision, "(AP)", "0.50:0.95", "large", 100},
    {"AR_1", &CocoFigures::AR_1, kRecall, "(AR)", "0.50:0.95", "all", 1},
    {"AR_10", &CocoFigures::AR_10, kRecall, "(AR)", "0.50:0.95", "all", 10},
    {"AR_100", &CocoFigures::AR_100, kRecall, "(AR)", "0.50:0.95", "all", 100},
    {"AR_small", &CocoFigures::AR_small, kRecall, "(AR)", "0.50:0.95", "small", 100},
    {"AR_medium", &CocoFigures::AR_medium, kRecall, "(AR)", "0.50:0.95", "medium", 100},
    {"AR_large", &CocoFigures::AR_large, kRecall, "(AR)", "0.50:0.95", "large", 100},
};

// "-" where there is no object of the kind.
std::string cell(double v) { return v < 0 ? "-" : fmt::format("{:.3f}", v); }

}  // namespace

CocoGroundTruth read_coco_ground_truth(const std::string& path) {
  CocoReport report = [&](const std::string& problem) { fail_input("{}: {}", path, problem); };
  CocoFile file = read_coco(path, report);
  check_coco_ids(file, report);
  CocoGroundTruth truth;
  for (const CocoImage& image : file.images) truth.images.push_back(image.id);
  truth.categories = std::move(file.categories);
  truth.annotations = std::move(file.annotations);
  return truth;
}

std::vector<std::pair<std::string, double>> named_figures(const CocoFigures& figures) {
  std::vector<std::pair<std::string, double>> named;
  for (const Line& l : kLines) named.emplace_back(l.key, figures.*l.value);
  return named;
}

std::string coco_table(const CocoFigures& figures) {
  std::string text;
  for (const Line& l : kLines)
    text += fmt::format(" {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3d} ] = {:0.3f}\n", l.title,
                        l.type, l.iou, l.area, l.max_detections, figures.*l.value);
  return text;
}

std::string coco_class_table(const CocoFigures& figures) {
  size_t width = 8;
  for (const CocoClassFigures& c : figures.classes) width = std::max(width, c.name.size());
  std::string text = fmt::format("{:<{}} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}\n", "category",
                                 width, "objects", "AP", "AP50", "AP75", "small", "medium", "large", "AR100");
  for (const CocoClassFigures& c : figures.classes)
    text += fmt::format("{:<{}} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}\n", c.name, width, c.objects,
                        cell(c.AP), cell(c.AP50), cell(c.AP75), cell(c.AP_small), cell(c.AP_medium),
                        cell(c.AP_large), cell(c.AR_100));
  return text;
}

std::string coco_json(const CocoFigures& figures, bool with_classes) {
  std::string text = "{";
  for (const Line& l : kLines)
    text += fmt::format("{}\n  \"{}\": {}", &l == kLines ? "" : ",", l.key, figures.*l.value);
  if (with_classes) {
    text += fmt::format(",\n  \"AP_by_iou\": [{}],\n  \"per_class\": [", fmt::join(figures.AP_by_iou, ", "));
    for (const CocoClassFigures& c : figures.classes)
      text += fmt::format(
          "{}\n    {{\"category_id\": {}, \"name\": {}, \"objects\": {}, \"AP\": {}, \"AP50\": {}, "
          "\"AP75\": {}, \"AP_small\": {}, \"AP_medium\": {}, \"AP_large\": {}, \"AR_100\": {}}}",
          &c == figures.classes.data() ? "" : ",", c.category_id, json_quote(c.name), c.objects, c.AP, c.AP50,
          c.AP75, c.AP_small, c.AP_medium, c.AP_large, c.AR_100);
    text += "\n  ]";
  }
  return text + "\n}\n";
}

}  // namespace saccade
