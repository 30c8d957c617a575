// Counts and sizes of each class, and the boxes of all as histograms.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/files/text.h"
#include "data/pages/chart.h"
#include "data/pages/order.h"
#include "data/pages/page_parts.h"

namespace saccade::report {
namespace {

constexpr size_t kMaxRows = 300;
constexpr double kSmall = 32, kMedium = 96;  // COCO's limits of the square root of the area

struct ClassCounts {
  std::vector<int64_t> boxes;  // per split
  std::vector<std::set<size_t>> images;
  std::vector<double> sizes, ratios;  // square root of the area in pixels; width / height
};

std::vector<ClassCounts> count_classes(const Dataset& data) {
  const size_t splits = data.splits.size();
  std::vector<ClassCounts> counts(data.class_names.size());
  for (ClassCounts& c : counts) {
    c.boxes.resize(splits);
    c.images.resize(splits);
  }
  for (size_t s = 0; s < splits; ++s) {
    const ReportedSplit& split = data.splits[s];
    for (size_t label : split.image_classes) ++counts[label].boxes[s];
    for (size_t i = 0; i < data.boxes_of[s].size(); ++i)
      for (size_t k : data.boxes_of[s][i]) {
        const Annotation& a = split.truth.annotations[k];
        const size_t label = data.class_of(a.category_id);
        if (label == counts.size() || a.iscrowd) continue;
        ++counts[label].boxes[s];
        counts[label].images[s].insert(i);
        const double w = a.bbox[2], h = a.bbox[3];
        if (!(w > 0 && h > 0)) continue;
        counts[label].sizes.push_back(std::sqrt(w * h));
        counts[label].ratios.push_back(w / h);
      }
  }
  for (ClassCounts& c : counts) {
    std::ranges::sort(c.sizes);
    std::ranges::sort(c.ratios);
  }
  return counts;
}

// Returns the element of sorted values below which this fraction lies.
double quantile(const std::vector<double>& values, double share) {
  if (values.empty()) return NAN;
  return values[static_cast<size_t>(std::llround(share * static_cast<double>(values.size() - 1)))];
}

double share_between(const std::vector<double>& values, double low, double high) {
  if (values.empty()) return NAN;
  const auto at = [&](double v) { return std::ranges::lower_bound(values, v) - values.begin(); };
  return static_cast<double>(at(high) - at(low)) / static_cast<double>(values.size());
}

int64_t total(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (int64_t n : counts) sum += n;
  return sum;
}

}  // namespace

void add_classes(Page& page, const Dataset& data) {
  page.section("Classes");
  const std::vector<ClassCounts> counts = count_classes(data);
  const std::vector<size_t> order =
      falling_order(counts.size(), [&](size_t label) { return total(counts[label].boxes); });
  const char* thing = data.has_boxes ? "Boxes" : "Images";
  std::vector<TableColumn> columns{{"Class", false}, {thing, false}};
  if (data.splits.size() > 1)
    for (const ReportedSplit& split : data.splits) columns.push_back({split.name});
  if (data.has_boxes)
    columns.insert(columns.end(), {{"Images", true, "that have such a box"},
                                   {"Size", true, "median of the square root of the box's area, in pixels"},
                                   {"5–95 %", true, "the 5th and the 95th percentile of the sizes"},
                                   {"Small", true, "below 32 × 32 pixels"},
                                   {"Medium", true, "up to 96 × 96 pixels"},
                                   {"Large", true, "above"},
                                   {"Width / height", true, "median"}});
  const int64_t most = order.empty() ? 0 : total(counts[order.front()].boxes);
  std::vector<std::vector<Html>> rows;
  for (size_t label : order) {
    if (rows.size() == kMaxRows) break;
    const ClassCounts& c = counts[label];
    const int64_t sum = total(c.boxes);
    std::vector<Html> row =
        cells(data.class_names[label],
              bar_cell(static_cast<double>(sum) / static_cast<double>(std::max<int64_t>(most, 1)),
                       count_text(sum)));
    if (data.splits.size() > 1)
      for (int64_t n : c.boxes) add_cells(row, count_text(n));
    if (data.has_boxes) {
      int64_t images = 0;
      for (const auto& of_split : c.images) images += std::ssize(of_split);
      add_cells(
          row, count_text(images), number_text(quantile(c.sizes, 0.5)),
          c.sizes.empty() ? std::string("–")
                          : number_text(quantile(c.sizes, 0.05)) + "–" + number_text(quantile(c.sizes, 0.95)),
          share_text(share_between(c.sizes, 0, kSmall)), share_text(share_between(c.sizes, kSmall, kMedium)),
          share_text(share_between(c.sizes, kMedium, INFINITY)), number_text(quantile(c.ratios, 0.5)));
    }
    rows.push_back(std::move(row));
  }
  page.add(html_table(columns, rows));
  if (order.size() > kMaxRows)
    page.add(note(count_of(std::ssize(order) - static_cast<int64_t>(kMaxRows), "more class has fewer.",
                           "more classes have fewer.")));
  if (const int64_t least = order.empty() ? 0 : total(counts[order.back()].boxes);
      most > 20 * std::max<int64_t>(least, 1))
    page.add(note(least > 0
                      ? fmt::format("The most frequent class has {} times as many as the rarest.",
                                    number_text(static_cast<double>(most) / static_cast<double>(least)))
                      : fmt::format("The most frequent class has {}, the rarest none.", count_text(most))));
}

void add_boxes(Page& page, const Dataset& data) {
  page.section("Boxes");
  std::vector<double> sizes, ratios, shares, counts;
  constexpr size_t kFields = 24;
  std::vector<std::vector<double>> centres(kFields * 2 / 3, std::vector<double>(kFields, 0));
  for (size_t s = 0; s < data.splits.size(); ++s)
    for (size_t i = 0; i < data.boxes_of[s].size(); ++i) {
      const ImageInfo& image = data.splits[s].truth.images[i];
      const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
      counts.push_back(static_cast<double>(data.boxes_of[s][i].size()));
      for (size_t k : data.boxes_of[s][i]) {
        const auto [x, y, w, h] = data.splits[s].truth.annotations[k].bbox;
        if (!(w > 0 && h > 0)) continue;
        sizes.push_back(std::sqrt(w * h));
        ratios.push_back(w / h);
        if (!(width > 0 && height > 0)) continue;
        shares.push_back(std::min(1.0, std::sqrt(w * h / (width * height))));
        const double cx = (x + w / 2) / width, cy = (y + h / 2) / height;
        if (cx >= 0 && cx < 1 && cy >= 0 && cy < 1)
          ++centres[static_cast<size_t>(cy * static_cast<double>(centres.size()))]
                   [static_cast<size_t>(cx * kFields)];
      }
    }
  page.add(grid(
      "charts",
      {histogram_chart(
           Histogram::of(sizes, true),
           {.title = "Size of the boxes", .x_label = "√area, pixels", .marks = {kSmall, kMedium}}),
       histogram_chart(Histogram::of(shares, false),
                       {.title = "Size relative to the image", .x_label = "√(area / area of the image)"}),
       histogram_chart(Histogram::of(ratios, true),
                       {.title = "Shape", .x_label = "width / height", .marks = {1}}),
       histogram_chart(Histogram::of(counts, false, true), {.title = "Boxes per image", .x_label = "boxes"}),
       heat_map(centres, {.title = "Where they are",
                          .x_label = "centres of the boxes, all images scaled to one size"})}));
  page.add(note("Dashed lines: 32 and 96 pixels, COCO's limits for small and large objects; a ratio of 1."));
}

}  // namespace saccade::report
