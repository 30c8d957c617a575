#include "train/report/run_metrics.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/formats/csv.h"
#include "core/tensor/error.h"
#include "train/logs/progress.h"

namespace saccade {
namespace {

// The limit on curves in one chart.
constexpr size_t kMaxSeries = 8;

// The start of the program that wrote the previous line.
struct Start {
  double step = 0;     // of the checkpoint from which it continued
  double elapsed = 0;  // seconds, at that line
};

// Returns whether every value is what a log has: numbers, null for those that are not finite, and the type.
bool is_log_line(const simdjson::dom::object& line) {
  std::string_view type;
  int64_t step = 0;
  if (line["type"].get(type) != simdjson::SUCCESS || line["step"].get(step) != simdjson::SUCCESS)
    return false;
  for (const auto field : line)
    if (field.key != "type" && !field.value.is_number() && !field.value.is_null() && !field.value.is_bool())
      return false;
  return true;
}

void add_line(const simdjson::dom::object& line, RunMetrics& run, Start& last) {
  const std::string_view type = line["type"];
  if (type != "train" && type != "eval") return;
  MetricCurves& curves = type == "train" ? run.train : run.eval;
  const auto at = static_cast<double>(int64_t{line["step"]});
  Start start;
  // Lines of older runs have no start_step: only the clock, which starts again at 0, shows a new start.
  if (line["start_step"].get(start.step) != simdjson::SUCCESS) start.step = last.step;
  if (line["elapsed_s"].get(start.elapsed) != simdjson::SUCCESS) start.elapsed = last.elapsed;
  if (start.step > last.step || start.elapsed < last.elapsed) {
    run.seconds += last.elapsed;
    run.resumed.push_back(start.step > last.step ? start.step : run.step);
  }
  last = start;
  for (const auto field : line) {
    double value = 0;
    if (field.key == "step" || field.value.get(value) != simdjson::SUCCESS) continue;
    std::vector<ChartPoint>& points = curves[std::string(field.key)];
    if (!points.empty() && points.back().x == at) points.pop_back();  // the later line counts
    points.push_back({at, value});
    if (field.key == "epoch") run.epoch = value;
  }
  run.step = at;
}

// Returns the curves of these metrics that were logged, with their names in the chart.
std::vector<ChartSeries> series_of(const MetricCurves& curves,
                                   const std::vector<std::pair<std::string, std::string>>& names,
                                   bool dots = false) {
  std::vector<ChartSeries> out;
  for (const auto& [metric, name] : names)
    if (const auto it = curves.find(metric); it != curves.end())
      out.push_back({.name = name, .points = thinned(it->second), .dots = dots && it->second.size() <= 40});
  return out;
}

// Leaves out -1, which COCO gives if there are no objects.
std::vector<ChartSeries> series_of_metrics(const MetricCurves& curves,
                                           const std::vector<std::pair<std::string, std::string>>& names) {
  std::vector<ChartSeries> out = series_of(curves, names, true);
  for (ChartSeries& s : out) std::erase_if(s.points, [](const ChartPoint& p) { return p.y < 0; });
  std::erase_if(out, [](const ChartSeries& s) { return s.points.empty(); });
  return out;
}

// Returns the metrics with a prefix such as "AP/": those of the classes.
std::vector<std::pair<std::string, std::string>> with_prefix(const MetricCurves& curves,
                                                             const std::string& prefix) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [name, points] : curves)
    if (name.starts_with(prefix)) names.emplace_back(name, name.substr(prefix.size()));
  return names;
}

// Returns "class", "bbox", ... of the last decoder layer or the whole model; the names of other layers
// continue with a number or a word.
std::vector<std::pair<std::string, std::string>> loss_parts(const MetricCurves& train) {
  std::vector<std::pair<std::string, std::string>> names = with_prefix(train, "loss_");
  std::erase_if(names, [](const auto& part) { return part.second.find('_') != std::string::npos; });
  return names;
}

std::vector<ChartSeries> learning_rates(const MetricCurves& train) {
  std::vector<std::pair<std::string, std::string>> names = with_prefix(train, "learning_rate/");
  names.insert(names.begin(), {"learning_rate", names.empty() ? "" : "most parameters"});
  return series_of(train, names);
}

}  // namespace

RunMetrics read_run_metrics(const std::string& path) {
  RunMetrics run;
  simdjson::dom::parser parser;
  const std::vector<uint8_t> bytes = read_file(path, kLogFile);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Start last;
  int64_t damaged = 0;
  bool is_cut = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    simdjson::dom::object line;
    if (end == begin) {
      begin = end + 1;
      continue;
    }
    if (parser.parse(text.substr(begin, end - begin)).get(line) == simdjson::SUCCESS && is_log_line(line))
      add_line(line, run, last);
    else if (end == text.size())
      is_cut = true;
    else
      ++damaged;
    begin = end + 1;
  }
  run.seconds += last.elapsed;
  if (damaged > 0)
    run.remarks.push_back(
        fmt::format("warning: {}: {} damaged and left out", path, count_of(damaged, "line is", "lines are")));
  if (is_cut) run.remarks.push_back(fmt::format("note: {}: its last line is cut off and left out", path));
  if (text.empty()) run.remarks.push_back(fmt::format("note: {}: the file is empty", path));
  return run;
}

double mean_of(const MetricCurves& curves, const std::string& metric) {
  const auto it = curves.find(metric);
  if (it == curves.end() || it->second.empty()) return NAN;
  double sum = 0;
  for (const ChartPoint& p : it->second) sum += p.y;
  return sum / static_cast<double>(it->second.size());
}

ChartPoint best_of(const MetricCurves& curves, const std::string& metric) {
  ChartPoint best{NAN, NAN};
  if (const auto it = curves.find(metric); it != curves.end())
    for (const ChartPoint& p : it->second)
      if (p.y >= 0 && !(p.y < best.y)) best = p;
  return best;
}

ChartPoint last_of(const MetricCurves& curves, const std::string& metric) {
  const auto it = curves.find(metric);
  if (it == curves.end() || it->second.empty() || it->second.back().y < 0) return {NAN, NAN};
  return it->second.back();
}

void add_run_section(Page& page, const RunMetrics& run, const std::vector<MetricChart>& charts_of_task,
                     const std::string& main_metric) {
  page.section("Training");
  if (run.train.empty() && run.eval.empty()) {
    page.add(note("Nothing has been logged yet."));
    return;
  }
  std::vector<Html> charts;
  auto add = [&](std::vector<ChartSeries> series, ChartOptions chart, const std::string& things = "") {
    if (series.empty()) return;
    chart.x_label = "step";
    chart.marks = run.resumed;
    if (series.size() > kMaxSeries) {
      chart.subtitle += fmt::format("{}the first {} of {} {} by name", chart.subtitle.empty() ? "" : ", ",
                                    kMaxSeries, series.size(), things);
      series.resize(kMaxSeries);
    }
    charts.push_back(line_chart(series, chart));
  };
  std::vector<std::pair<std::string, std::string>> numbers{
      {number_text(run.step), "steps"},
      {number_text(run.epoch), "epochs"},
      {format_duration(run.seconds), "total time"},
      {number_text(mean_of(run.train, "images_per_second")), "images/s, mean"},
      {share_text(mean_of(run.train, "data_ms") / mean_of(run.train, "step_ms")), "waiting for images"}};
  if (const ChartPoint best = best_of(run.eval, main_metric); std::isfinite(best.y))
    numbers.insert(numbers.begin(),
                   {metric_text(best.y), fmt::format("best {} (step {})", main_metric, number_text(best.x))});
  page.add(tiles(numbers));
  add(series_of(run.train, {{"loss", ""}}),
      {.title = "Loss", .subtitle = "all parts, all layers", .log_y = true});
  add(series_of(run.train, loss_parts(run.train)),
      {.title = "Parts of the loss", .subtitle = "last layer", .log_y = true}, "parts");
  for (const MetricChart& chart : charts_of_task) {
    const MetricCurves& curves = chart.of_training ? run.train : run.eval;
    const auto names = chart.prefix.empty() ? chart.metrics : with_prefix(curves, chart.prefix);
    add(chart.of_training ? series_of(curves, names) : series_of_metrics(curves, names),
        {.title = chart.title, .subtitle = chart.subtitle, .y_low = 0}, chart.things);
  }
  add(series_of_metrics(run.eval, {{"loss", ""}}), {.title = "Validation loss", .log_y = true});
  add(learning_rates(run.train), {.title = "Learning rate", .y_low = 0}, "groups");
  add(series_of(run.train, {{"gradient_norm", ""}}),
      {.title = "Gradient norm", .subtitle = "before clipping", .log_y = true});
  add(series_of(run.train, {{"images_per_second", ""}}),
      {.title = "Speed", .subtitle = "images/s", .y_low = 0});
  page.add(grid("charts", charts));
  if (!run.resumed.empty()) page.add(note("Dashed lines: where the run was resumed."));
}

namespace {

using Row = std::map<std::string, double>;

std::map<double, Row> rows_by_step(const MetricCurves& curves) {
  std::map<double, Row> rows;
  for (const auto& [metric, points] : curves)
    for (const ChartPoint& p : points) rows[p.x][metric] = p.y;
  return rows;
}

}  // namespace

std::string runs_csv(std::span<const NamedRun> runs) {
  std::set<std::string> metrics;
  for (const NamedRun& run : runs)
    for (const MetricCurves* curves : {&run.metrics.train, &run.metrics.eval})
      for (const auto& [metric, points] : *curves) metrics.insert(metric);
  std::string text = "run,type,step";
  for (const std::string& metric : metrics) text += "," + csv_field(metric);
  text += "\n";
  for (const NamedRun& run : runs)
    for (const auto& [type, curves] :
         {std::pair{"train", &run.metrics.train}, std::pair{"eval", &run.metrics.eval}})
      for (const auto& [step, row] : rows_by_step(*curves)) {
        text += fmt::format("{},{},{:.0f}", csv_field(run.name), type, step);
        for (const std::string& metric : metrics) {
          const auto it = row.find(metric);
          text += it == row.end() ? std::string(",") : fmt::format(",{}", it->second);
        }
        text += "\n";
      }
  return text;
}

}  // namespace saccade
