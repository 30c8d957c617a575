// Report sections: precision, recall and confusions of a detector, and pictures of its detections.
#include "train/tasks/detection/detection.h"

#include <algorithm>

#include "data/evaluation/coco/coco_overlap.h"
#include "data/pages/chart.h"
#include "data/pages/order.h"
#include "train/inference/evaluation_data.h"
#include "train/logs/print.h"
#include "train/report/evaluation_sections.h"
#include "train/tasks/detection/detection_metrics.h"
#include "train/tasks/detection/evaluate.h"
#include "train/tasks/detection/found_objects.h"
#include "train/tasks/detection/report_pictures.h"

namespace saccade {
namespace {

constexpr size_t kMaxRows = 400, kCurveCharts = 24;

void add_coco(Page& page, const DetectionMetrics& metrics) {
  page.section("COCO metrics");
  std::vector<std::vector<Html>> rows;
  auto add = [&](const char* prefix, const CocoMetrics& of) {
    for (const CocoMetric& f : coco_metric_rows(of))
      rows.push_back(cells(prefix + f.name, html("<b>{}</b>", metric_text(f.value)), f.kind, f.iou, f.area,
                           f.max_detections));
  };
  add("", metrics.coco);
  if (metrics.masks) add(kOfMasks, *metrics.masks);
  page.add(html_table({{"Metric", false},
                       {"Value"},
                       {"What", false},
                       {"IoU", false},
                       {"Area", false},
                       {"Detections per image"}},
                      rows));
  page.add(note(fmt::format("As pycocotools computes them. A dash means that there is no such object.{}",
                            metrics.masks ? " Metrics that begin with segm_ are for masks. The others, and "
                                            "everything below except the mask columns, are for boxes."
                                          : "")));
}

void add_classes(Page& page, const DetectionMetrics& metrics) {
  page.section("Classes");
  std::vector<TableColumn> columns{
      {"Class", false}, {"Objects"}, {"AP", false, "mean over IoU 0.50 to 0.95"}, {"AP50"}, {"AP75"}};
  for (const std::string& area : metrics.coco.areas) columns.push_back({area});
  if (metrics.masks)
    columns.insert(columns.end(), {{"Mask AP", true, "like AP, for masks"}, {"Mask AP50"}, {"Mask AP75"}});
  columns.insert(columns.end(), {{fmt::format("AR{}", metrics.coco.max_detections)},
                                 {"Threshold", true, "the score with the best F1 at IoU 0.5"},
                                 {"F1", true, "at this threshold"},
                                 {"Precision", true, "at this threshold"},
                                 {"Recall", true, "at this threshold"}});
  std::vector<size_t> order =
      falling_order(metrics.coco.classes.size(), [&](size_t i) { return metrics.coco.classes[i].objects; });
  if (order.size() > kMaxRows) order.resize(kMaxRows);
  std::vector<std::vector<Html>> rows;
  for (size_t i : order) {
    const CocoClassMetrics& c = metrics.coco.classes[i];
    const OperatingPoint& best = metrics.at_50.classes[i].best;
    std::vector<Html> row = cells(c.name, count_text(c.objects), bar_cell(c.AP, metric_text(c.AP)));
    std::vector<double> values{c.AP50, c.AP75};
    values.insert(values.end(), c.AP_of_areas.begin(), c.AP_of_areas.end());
    if (metrics.masks) {
      const CocoClassMetrics& m = metrics.masks->classes[i];
      values.insert(values.end(), {m.AP, m.AP50, m.AP75});
    }
    values.insert(values.end(), {c.AR_100, best.threshold, best.f1, best.precision, best.recall});
    for (double v : values) add_cells(row, metric_text(v));
    rows.push_back(std::move(row));
  }
  page.add(html_table(columns, rows));
  if (order.size() < metrics.coco.classes.size())
    page.add(note(fmt::format("The {} classes with the most objects, out of {}.", order.size(),
                              metrics.coco.classes.size())));
  const OperatingPoint& best = metrics.at_50.best;
  page.add(
      note(fmt::format("One threshold for all classes: {} gives the best F1, {} (precision {}, recall {}).",
                       metric_text(best.threshold), metric_text(best.f1), metric_text(best.precision),
                       metric_text(best.recall))));
}

std::vector<ChartPoint> recall_points(const std::vector<double>& precision) {
  std::vector<ChartPoint> points;
  for (size_t r = 0; r < precision.size(); ++r)
    points.push_back({static_cast<double>(r) / static_cast<double>(precision.size() - 1), precision[r]});
  return points;
}

// The mean over the classes that have objects.
std::vector<ChartPoint> mean_curve(const DetectionCurves& curves) {
  std::vector<double> sum;
  double classes = 0;
  for (const ClassCurve& c : curves.classes) {
    if (c.at_recall.empty()) continue;
    sum.resize(c.at_recall.size());
    for (size_t r = 0; r < sum.size(); ++r) sum[r] += c.at_recall[r];
    ++classes;
  }
  for (double& v : sum) v /= classes;
  return recall_points(sum);
}

void add_curves(Page& page, const DetectionMetrics& metrics) {
  page.section("Precision and recall");
  ChartOptions unit{.title = "", .x_low = 0, .x_high = 1, .y_low = 0, .y_high = 1};
  auto options = [&](const std::string& title, const std::string& subtitle, const std::string& x_label) {
    unit.title = title, unit.subtitle = subtitle, unit.x_label = x_label;
    return unit;
  };
  auto chart = [&](const std::string& title, const std::string& subtitle,
                   const std::vector<ChartPoint>& at_50, const std::vector<ChartPoint>& at_75) {
    return line_chart({{"IoU 0.50", at_50}, {"IoU 0.75", at_75}}, options(title, subtitle, "recall"));
  };
  std::vector<Html> charts{
      chart("All classes", "mean over the classes", mean_curve(metrics.at_50), mean_curve(metrics.at_75))};
  const DetectionCurves& all = metrics.at_50;
  ChartSeries precision{.name = "precision", .points = {}}, recall{.name = "recall", .points = {}},
      f1{.name = "F1", .points = {}};
  for (size_t i = all.scores.size(); i-- > 0;) {
    const double p = all.precision[i], r = all.recall[i];
    precision.points.push_back({all.scores[i], p});
    recall.points.push_back({all.scores[i], r});
    f1.points.push_back({all.scores[i], p + r > 0 ? 2 * p * r / (p + r) : 0});
  }
  for (ChartSeries* s : {&precision, &recall, &f1}) s->points = thinned(s->points, 200);
  ChartOptions by_threshold = options("By threshold", "all classes, IoU 0.50", "score threshold");
  by_threshold.marks = {metrics.threshold};
  charts.push_back(line_chart({precision, recall, f1}, by_threshold));
  std::vector<size_t> order =
      falling_order(all.classes.size(), [&](size_t c) { return all.classes[c].objects; });
  std::erase_if(order, [&](size_t c) { return all.classes[c].objects <= 0; });
  for (size_t i = 0; i < std::min(order.size(), kCurveCharts); ++i) {
    const size_t c = order[i];
    charts.push_back(
        chart(all.classes[c].name, fmt::format("AP50 {}", metric_text(metrics.coco.classes[c].AP50)),
              recall_points(all.classes[c].at_recall), recall_points(metrics.at_75.classes[c].at_recall)));
  }
  page.add(grid("charts", charts));
  if (order.size() > kCurveCharts)
    page.add(note(fmt::format("The {} classes with the most objects.", kCurveCharts)));
}

}  // namespace

std::string DetectionParts::report(Page& page, const ReportOptions& options) const {
  std::vector<std::string> notes;
  MetricOptions wanted = metric_options_of(options.model.config, options.metric_options);
  if (options.model.module) need_predicted_masks(wanted, options.model, options.checkpoint);
  const DataPaths paths = with_masks_of(wanted, options.paths);
  auto dataset = open_dataset(paths, LabelScheme::kContiguous, &notes);
  settle_masks(wanted, *dataset, notes);
  const std::vector<std::string> remarks = notes_on_judged(*dataset, paths, options.model);
  notes.insert(notes.end(), remarks.begin(), remarks.end());
  for (const std::string& line : notes) print_line(line);
  const LoadedModel& model = options.model;
  check_categories(*dataset, model.category_ids, model.class_names, options.checkpoint);
  check_choice({.only = options.classes}, dataset->class_names(), dataset->name());
  check_label_errors(*dataset, options.label_errors);
  notes.clear();
  std::vector<Detection> detections =
      model.module ? detect(model.as<Detector>(), dataset, model.category_ids, options.evaluation)
                   : read_detections(options.detections, &dataset->ground_truth(), &notes,
                                     wanted.iou != IouType::kBoxes, options.paths.choice);
  settle_masks(wanted, detections, options.source, notes);
  if (model.module && detections.empty())
    if (std::string note = note_on_nothing_found(model.config); !note.empty())
      notes.push_back(std::move(note));
  for (const std::string& line : notes) print_line(line);
  dataset = keep_classes(dataset, paths, options.classes, detections);
  const GroundTruth& truth = dataset->ground_truth();
  const DetectionMetrics metrics =
      detection_metrics(truth, detections, options.threshold, options.source, wanted);
  for (const std::string& line : metrics.coco.notes) print_line(line);
  add_coco(page, metrics);
  add_classes(page, metrics);
  add_curves(page, metrics);
  page.section("Confusion matrix");
  page.add(note(fmt::format(
      "How many objects of each class were detected as which class, by detections with a score of at least {} at IoU 0.5. "
      "Background: objects that were not found (last column) and detections without an object (last row).",
      metric_text(metrics.threshold))));
  page.add(confusion_table(metrics.confusion, true));
  add_detection_pictures(page, *dataset, detections, metrics, options);
  add_label_errors(page, *dataset, detections, metrics.coco.AP50, options, remarks);
  return metrics_json(metrics);
}

}  // namespace saccade
