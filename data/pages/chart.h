// Charts as SVG.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/pages/html.h"

namespace saccade {

struct ChartPoint {
  double x = 0, y = 0;
};
// Points that are not finite are left out.
struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // by ascending x
  int color = -1;                  // 0 to 7; -1: its index in the list
  bool dots = false;               // marks each point
};

struct ChartOptions {
  std::string title, subtitle = {};
  std::string x_label = {};
  bool log_y = false;  // ignored if a value is not above 0
  std::optional<double> x_low = {}, x_high = {}, y_low = {}, y_high = {};
  std::vector<double> marks = {};  // positions on the x axis that get a line
};
Html line_chart(const std::vector<ChartSeries>& series, const ChartOptions& options);

// Returns at most `count` points that show the same curve: the mean of each section.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, size_t count = 300);

// Counts the values in equal parts of a range, on a linear or a logarithmic axis.
struct Histogram {
  double low = 0, high = 1;
  bool is_log = false;
  std::vector<int64_t> counts;

  // The range is that of the values, which must be above 0 on a logarithmic axis (others are left out);
  // whole: one part for each whole number if these are few.
  static Histogram of(const std::vector<double>& values, bool is_log, bool whole = false, size_t parts = 36);
};
Html histogram_chart(const Histogram& histogram, const ChartOptions& options);

// Shows rows by columns of numbers; the larger a number relative to the largest, the darker its cell.
Html heat_map(const std::vector<std::vector<double>>& rows, const ChartOptions& options);

// Returns round numbers that divide the range into about this many parts.
std::vector<double> axis_ticks(double low, double high, int parts);
// Returns powers of ten, with 2 and 5 times those if these are few, or the result of axis_ticks() if at most
// two of them are in the range.
std::vector<double> log_ticks(double low, double high);

}  // namespace saccade
