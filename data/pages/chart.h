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
  std::vector<ChartPoint> points;  // by rising x
  int color = -1;                  // 0 to 7; -1: its place in the list
  bool dots = false;               // each point is marked
};

struct ChartOptions {
  std::string title, subtitle = {};
  std::string x_label = {};
  bool log_y = false;  // ignored where a value is not above 0
  std::optional<double> x_low = {}, x_high = {}, y_low = {}, y_high = {};
  std::vector<double> marks = {};  // places on the x axis with a line
};
Html line_chart(const std::vector<ChartSeries>& series, const ChartOptions& options);

// At most `count` points that show the same curve: of each stretch the mean.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, size_t count = 300);

// How many values fall into each of the equal parts of a range, on a linear or a logarithmic axis.
struct Histogram {
  double low = 0, high = 1;
  bool is_log = false;
  std::vector<int64_t> counts;

  // The range is that of the values, which must be above 0 on a logarithmic axis (others are left out);
  // whole: one part for each whole number where these are few.
  static Histogram of(const std::vector<double>& values, bool is_log, bool whole = false, size_t parts = 36);
};
Html histogram_chart(const Histogram& histogram, const ChartOptions& options);

// Rows by columns of numbers; the darker a cell, the larger, in parts of the largest.
Html heat_map(const std::vector<std::vector<double>>& rows, const ChartOptions& options);

// Round numbers that divide the range into about so many parts.
std::vector<double> axis_ticks(double low, double high, int parts);
// Powers of ten, with 2 and 5 times those where these are few, or those of axis_ticks() where no more than
// two of them are in the range.
std::vector<double> log_ticks(double low, double high);

}  // namespace saccade
