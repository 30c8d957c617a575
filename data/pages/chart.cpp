#include "data/pages/chart.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace saccade {
namespace {

// Sizes of the drawing, in the units of its viewBox; about CSS pixels.
constexpr double kWidth = 360, kHeight = 210, kLeft = 46, kRight = 14, kTop = 8, kBottom = 34;

struct Axis {
  double low = 0, high = 1;
  bool is_log = false;
  double begin = 0, end = 1;  // positions

  double place(double v) const {
    const double part =
        is_log ? (std::log(v) - std::log(low)) / (std::log(high) - std::log(low)) : (v - low) / (high - low);
    return begin + part * (end - begin);
  }
  std::vector<double> ticks(int parts) const {
    return is_log ? log_ticks(low, high) : axis_ticks(low, high, parts);
  }
};

Axis make_axis(double low, double high, bool is_log, double begin, double end) {
  if (!(high > low)) {
    const double half = is_log ? 0 : std::max(std::abs(low) * 0.1, 0.5);
    low = is_log ? low / 2 : low - half;
    high = is_log ? high * 2 : high + half;
  }
  return {low, high, is_log, begin, end};
}

// The approximate width of the drawn text.
double label_width(std::string_view text) { return 6.3 * static_cast<double>(text.size()); }

// A label left of the axis, compressed if it would be cut off.
Html left_label(double y, const std::string& text) {
  constexpr double kRoom = kLeft - 7;
  const Html narrower = label_width(text) <= kRoom
                            ? Html()
                            : html(" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"", kRoom);
  return html("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\"{}>{}</text>", kLeft - 6, y + 4, narrower,
              text);
}

Html frame_of(const Axis& x, const Axis& y, const ChartOptions& options) {
  Html out;
  for (double v : y.ticks(4))
    out += html("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>{}", kLeft,
                kWidth - kRight, y.place(v), y.place(v), left_label(y.place(v), number_text(v)));
  for (double v : options.marks)
    if (v >= x.low && v <= x.high)
      out += html("<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>", x.place(v),
                  kTop, kHeight - kBottom);
  out += html("<line class=\"axis\" x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\"/>", kLeft, kWidth - kRight,
              kHeight - kBottom);
  for (double v : x.ticks(5)) {
    const std::string text = number_text(v);
    out += html("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                std::min(x.place(v), kWidth - 1 - label_width(text) / 2), kHeight - kBottom + 14, text);
  }
  out += html("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>", (kLeft + kWidth - kRight) / 2,
              kHeight - 4, options.x_label);
  return out;
}

Html chart_of(const Html& drawing, const ChartOptions& options, const Html& legend = {}) {
  Html title = html("{}", options.title);
  if (!options.subtitle.empty()) title += html(" <small>{}</small>", options.subtitle);
  return html(
      "<figure class=\"chart\"><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">{}</svg>{}</figure>\n",
      title, kWidth, kHeight, options.title, drawing, legend);
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, int parts) {
  const double rough = (high - low) / std::max(parts, 1), power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (double times : {1.0, 2.0, 5.0, 10.0}) {
    step = times * power;
    if (step >= rough * 0.6) break;
  }
  std::vector<double> ticks;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + step * 1e-9 && ticks.size() < 50; ++k)
    ticks.push_back(k == 0 ? 0 : k * step);
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  const double decades = std::log10(high / low);
  std::vector<double> ticks;
  const int first = static_cast<int>(std::floor(std::log10(low))),
            last = static_cast<int>(std::ceil(std::log10(high)));
  const int skip = std::max(1, (last - first) / 6);
  for (int e = first; e <= last; e += skip)
    for (double times : {1.0, 2.0, 5.0}) {
      if (times > 1 && decades > 2.5) continue;
      const double v = times * std::pow(10, e);
      if (v >= low * 0.999 && v <= high * 1.001) ticks.push_back(v);
    }
  return ticks.size() > 2 ? ticks : axis_ticks(low, high, 4);
}

std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, size_t count) {
  if (points.size() <= count) return points;
  std::vector<ChartPoint> out;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * points.size() / count, end = (i + 1) * points.size() / count;
    ChartPoint mean;
    for (size_t k = begin; k < end; ++k) {
      mean.x += points[k].x;
      mean.y += points[k].y;
    }
    out.push_back({mean.x / static_cast<double>(end - begin), mean.y / static_cast<double>(end - begin)});
  }
  return out;
}

Html line_chart(const std::vector<ChartSeries>& series, const ChartOptions& options) {
  double x_low = INFINITY, x_high = -INFINITY, y_low = INFINITY, y_high = -INFINITY;
  for (const ChartSeries& s : series)
    for (const ChartPoint& p : s.points) {
      if (!std::isfinite(p.x) || !std::isfinite(p.y)) continue;
      x_low = std::min(x_low, p.x);
      x_high = std::max(x_high, p.x);
      y_low = std::min(y_low, p.y);
      y_high = std::max(y_high, p.y);
    }
  if (x_low > x_high)
    return chart_of(html("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">nothing to show</text>", kWidth / 2,
                         kHeight / 2),
                    options);
  const bool is_log = options.log_y && y_low > 0;
  if (!is_log && !options.y_low && y_low > 0 && y_low < y_high * 0.5) y_low = 0;
  if (options.y_low && y_high <= *options.y_low) y_high = *options.y_low + 1;
  const Axis x = make_axis(options.x_low.value_or(x_low), options.x_high.value_or(x_high), false, kLeft,
                           kWidth - kRight);
  const Axis y = make_axis(options.y_low.value_or(y_low), options.y_high.value_or(y_high), is_log,
                           kHeight - kBottom, kTop);
  Html drawing = frame_of(x, y, options), legend;
  for (size_t i = 0; i < series.size(); ++i) {
    const ChartSeries& s = series[i];
    const int color = s.color >= 0 ? s.color % 8 : static_cast<int>(i % 8);
    std::string path, dots;
    for (const ChartPoint& p : s.points) {
      if (!std::isfinite(p.x) || !std::isfinite(p.y)) continue;
      const double px = x.place(p.x), py = y.place(std::clamp(p.y, y.low, y.high));
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", px, py);
      if (s.dots) dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"/>", px, py);
    }
    if (path.find('L') == std::string::npos && dots.empty()) path += "h0.1";
    drawing += html("<path class=\"curve\" style=\"stroke:var(--s{})\" d=\"{}\"/>", color, path);
    if (!dots.empty()) drawing += html("<g style=\"fill:var(--s{})\">{}</g>", color, Html{dots});
    if (!s.name.empty())
      legend += html("<span><i style=\"background:var(--s{})\"></i>{}</span>", color, s.name);
  }
  if (!legend.code.empty()) legend = html("<div class=\"legend\">{}</div>", legend);
  return chart_of(drawing, options, legend);
}

Histogram Histogram::of(const std::vector<double>& values, bool is_log, bool whole, size_t parts) {
  Histogram h{.is_log = is_log, .counts = {}};
  h.low = INFINITY;
  h.high = -INFINITY;
  for (double v : values) {
    if (!std::isfinite(v) || (is_log && v <= 0)) continue;
    h.low = std::min(h.low, v);
    h.high = std::max(h.high, v);
  }
  if (h.low > h.high) return {.counts = {}};
  if (whole && h.high - h.low < 2 * static_cast<double>(parts)) {
    parts = static_cast<size_t>(h.high - h.low) + 1;
    h.low -= 0.5;
    h.high += 0.5;
  } else if (!(h.high > h.low)) {
    h.low = is_log ? h.low / 1.5 : h.low - 1;
    h.high = is_log ? h.high * 1.5 : h.high + 1;
  }
  h.counts.assign(parts, 0);
  const double begin = is_log ? std::log(h.low) : h.low, end = is_log ? std::log(h.high) : h.high;
  for (double v : values) {
    if (!std::isfinite(v) || (is_log && v <= 0)) continue;
    const double part = ((is_log ? std::log(v) : v) - begin) / (end - begin) * static_cast<double>(parts);
    ++h.counts[std::min(parts - 1, static_cast<size_t>(std::max(part, 0.0)))];
  }
  return h;
}

Html histogram_chart(const Histogram& h, const ChartOptions& options) {
  if (h.counts.empty()) return line_chart({}, options);
  const double most = static_cast<double>(*std::max_element(h.counts.begin(), h.counts.end()));
  const Axis x = make_axis(h.low, h.high, h.is_log, kLeft, kWidth - kRight);
  const Axis y = make_axis(0, std::max(most, 1.0), false, kHeight - kBottom, kTop);
  Html drawing = frame_of(x, y, options), bars;
  const double step = (kWidth - kRight - kLeft) / static_cast<double>(h.counts.size());
  for (size_t i = 0; i < h.counts.size(); ++i) {
    if (h.counts[i] == 0) continue;
    // Any nonzero count stays visible.
    const double top = std::min(y.place(static_cast<double>(h.counts[i])), y.begin - 1);
    bars +=
        html("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>{}</title></rect>",
             kLeft + static_cast<double>(i) * step + step * 0.06, top, step * 0.88, y.begin - top,
             count_text(h.counts[i]));
  }
  drawing += html("<g style=\"fill:var(--s0)\">{}</g>", bars);
  return chart_of(drawing, options);
}

Html heat_map(const std::vector<std::vector<double>>& rows, const ChartOptions& options) {
  double most = 0;
  for (const auto& row : rows)
    for (double v : row) most = std::max(most, v);
  Html drawing;
  const double height = kHeight - kBottom - kTop + 20;
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t c = 0; c < rows[r].size(); ++c) {
      const double w = kWidth / static_cast<double>(rows[r].size()),
                   h = height / static_cast<double>(rows.size());
      drawing += html(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
          "style=\"fill:rgba(var(--heat),{:.3f})\"><title>{}</title></rect>",
          static_cast<double>(c) * w, kTop + static_cast<double>(r) * h, w + 0.1, h + 0.1,
          0.05 + 0.95 * (most > 0 ? rows[r][c] / most : 0), number_text(rows[r][c]));
    }
  drawing += html("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>", kWidth / 2, kHeight - 4,
                  options.x_label);
  return chart_of(drawing, options);
}

}  // namespace saccade
