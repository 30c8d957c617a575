#include "train/report/run_csv.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "core/formats/csv.h"

namespace saccade {
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
