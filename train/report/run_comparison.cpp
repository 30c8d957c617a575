#include "train/report/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "train/config/recipes.h"
#include "train/config/schema/config_changes.h"
#include "train/logs/progress.h"

namespace saccade {
namespace {

constexpr size_t kMaxParts = 6, kMaxClassCharts = 6;

std::string metric_with_step(const ChartPoint& point) {
  return std::isfinite(point.y) ? fmt::format("{} (step {})", metric_text(point.y), number_text(point.x))
                                : "–";
}

void add_outcomes(Page& page, const std::vector<ComparedRun>& runs) {
  std::set<std::string> known;
  std::vector<std::string> metric_names;  // of any run
  for (const ComparedRun& run : runs)
    for (const std::string& metric : run.metric_names)
      if (metric != run.main_metric && run.metrics.eval.contains(metric) && known.insert(metric).second)
        metric_names.push_back(metric);
  std::vector<TableColumn> columns{{"Run", false},
                                   {"Model", false},
                                   {"Best", true, "the metric by which the best weights were chosen"},
                                   {"Last", true, "the same metric at the last evaluation"}};
  for (const std::string& metric : metric_names) columns.push_back({metric, true, "at the last evaluation"});
  columns.insert(columns.end(), {{"Loss", true, "the last logged value"},
                                 {"Steps"},
                                 {"Epochs"},
                                 {"Time"},
                                 {"Images/s", true, "mean"},
                                 {"Parameters"}});
  std::vector<std::vector<Html>> rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    const ComparedRun& run = runs[i];
    const ChartPoint best = best_of(run.metrics.eval, run.main_metric),
                     last = last_of(run.metrics.eval, run.main_metric);
    std::vector<Html> row =
        cells(html("<i class=\"run\" style=\"background:var(--s{})\"></i>{}", i % 8, run.name),
              run.config.model().type(),
              html("<b>{}</b>{}", std::isfinite(best.y) ? run.main_metric + " " : "", metric_with_step(best)),
              metric_text(last.y));
    for (const std::string& metric : metric_names)
      add_cells(row, metric_text(last_of(run.metrics.eval, metric).y));
    add_cells(row, number_text(last_of(run.metrics.train, "loss").y), number_text(run.metrics.step),
              number_text(run.metrics.epoch), format_duration(run.metrics.seconds),
              number_text(mean_of(run.metrics.train, "images_per_second")),
              run.parameters ? count_text(*run.parameters) : "–");
    rows.push_back(std::move(row));
  }
  page.section("Runs");
  page.add(html_table(columns, rows));
}

// Places the points at the epochs at which they were logged.
std::vector<ChartPoint> by_epoch(const MetricCurves& curves, const std::vector<ChartPoint>& points) {
  const auto it = curves.find("epoch");
  if (it == curves.end()) return {};
  std::map<double, double> epochs;
  for (const ChartPoint& p : it->second) epochs.emplace(p.x, p.y);
  std::vector<ChartPoint> out;
  for (const ChartPoint& p : points)
    if (const auto at = epochs.find(p.x); at != epochs.end()) out.push_back({at->second, p.y});
  return out;
}

class ComparisonCharts {
 public:
  explicit ComparisonCharts(const std::vector<ComparedRun>& runs)
      : runs_(runs), over_epochs_(std::ranges::any_of(runs, [&](const ComparedRun& run) {
          return images_of_step(run.config) != images_of_step(runs[0].config);
        })) {}

  // Adds the chart of one metric, if any run has logged it.
  bool add(const std::string& metric, bool of_training, ChartOptions options, bool is_metric = false) {
    std::vector<ChartSeries> series;
    for (size_t i = 0; i < runs_.size(); ++i) {
      const RunMetrics& metrics = runs_[i].metrics;
      const MetricCurves& curves = of_training ? metrics.train : metrics.eval;
      const auto it = curves.find(metric);
      if (it == curves.end()) continue;
      std::vector<ChartPoint> points = it->second;
      if (is_metric) std::erase_if(points, [](const ChartPoint& p) { return p.y < 0; });
      if (over_epochs_) points = by_epoch(curves, points);
      if (points.empty()) continue;
      series.push_back({.name = runs_[i].name,
                        .points = thinned(points),
                        .color = static_cast<int>(i % 8),
                        .dots = is_metric && points.size() <= 40});
    }
    if (series.empty()) return false;
    options.x_label = over_epochs_ ? "epoch" : "step";
    charts_.push_back(line_chart(series, options));
    return true;
  }
  void show(Page& page) const {
    page.add(charts_.empty() ? note("Nothing has been logged yet.") : grid("charts", charts_));
    if (over_epochs_)
      page.add(note("Plotted over epochs, because the runs have different numbers of images per step."));
  }

 private:
  const std::vector<ComparedRun>& runs_;
  bool over_epochs_;
  std::vector<Html> charts_;
};

// Returns the metrics with this prefix that any run has logged.
std::set<std::string> metrics_with(const std::vector<ComparedRun>& runs, bool of_training,
                                   const std::string& prefix) {
  std::set<std::string> names;
  for (const ComparedRun& run : runs)
    for (const auto& [name, points] : of_training ? run.metrics.train : run.metrics.eval)
      if (name.starts_with(prefix)) names.insert(name);
  return names;
}

void add_charts(Page& page, const std::vector<ComparedRun>& runs) {
  ComparisonCharts charts(runs);
  std::set<std::string> shown;
  auto add_metric = [&](const std::string& metric, const std::string& title, bool of_training) {
    if (shown.insert(metric).second)
      charts.add(metric, of_training, {.title = title, .y_low = 0}, !of_training);
  };
  for (const ComparedRun& run : runs)
    if (!run.main_metric.empty()) add_metric(run.main_metric, run.main_metric, false);
  charts.add("loss", true, {.title = "Loss", .subtitle = "all parts, all layers", .log_y = true});
  charts.add("loss", false, {.title = "Validation loss", .log_y = true});
  for (const ComparedRun& run : runs)
    for (const MetricChart& chart : run.charts)
      for (const auto& [metric, name] : chart.metrics)
        add_metric(metric, name == metric ? metric : fmt::format("{}: {}", chart.title, name),
                   chart.of_training);
  size_t classes = 0;
  for (const ComparedRun& run : runs)
    for (const MetricChart& chart : run.charts)
      if (!chart.prefix.empty())
        for (const std::string& metric : metrics_with(runs, chart.of_training, chart.prefix))
          if (!shown.contains(metric) && classes++ < kMaxClassCharts)
            add_metric(metric, metric, chart.of_training);
  size_t parts = 0;
  for (const std::string& metric : metrics_with(runs, true, "loss_"))
    if (metric.find('_', 5) == std::string::npos && parts++ < kMaxParts)
      charts.add(metric, true,
                 {.title = "Part of the loss: " + metric.substr(5), .subtitle = "last layer", .log_y = true});
  charts.add("learning_rate", true, {.title = "Learning rate", .y_low = 0});
  charts.add("gradient_norm", true, {.title = "Gradient norm", .subtitle = "before clipping", .log_y = true});
  charts.add("images_per_second", true, {.title = "Speed", .subtitle = "images/s", .y_low = 0});
  page.section("Curves");
  charts.show(page);
}

void add_differences(Page& page, const std::vector<ComparedRun>& runs) {
  page.section("Configurations");
  std::vector<std::string> order;                          // fields
  std::map<std::string, std::vector<std::string>> values;  // one for each run
  for (size_t i = 1; i < runs.size(); ++i)
    for (const ConfigChange& change : config_changes(runs[0].config, runs[i].config)) {
      const auto [it, is_new] = values.try_emplace(change.field, runs.size(), change.from);
      if (is_new) order.push_back(change.field);
      it->second[i] = change.to;
    }
  if (order.empty()) return page.add(note("The configurations are the same."));
  std::vector<TableColumn> columns{{"Field", false}};
  for (const ComparedRun& run : runs) columns.push_back({run.name, false});
  std::vector<std::vector<Html>> rows;
  for (const std::string& field : order) {
    rows.push_back({html("<code>{}</code>", field)});
    for (const std::string& value : values[field]) add_cells(rows.back(), value);
  }
  page.add(note("The fields that differ; all others are the same."));
  page.add(html_table(columns, rows));
}

}  // namespace

void add_comparison(Page& page, const std::vector<ComparedRun>& runs) {
  add_outcomes(page, runs);
  add_charts(page, runs);
  add_differences(page, runs);
}

}  // namespace saccade
