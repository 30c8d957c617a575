// Label maps: the number of pixels of each class, and where they are.
#include <algorithm>
#include <cmath>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/label_maps/label_values.h"
#include "data/pages/chart.h"
#include "data/pages/label_picture.h"
#include "data/pages/order.h"
#include "data/pages/page_parts.h"

namespace saccade::report {
namespace {

constexpr size_t kMaxClasses = 300, kShownClasses = 24, kShownOfClass = 3;
constexpr int64_t kLabelSide = 300;

struct OfClass {
  std::vector<int64_t> pixels;  // per split
  int64_t all = 0;
  std::vector<std::pair<double, ImagePlace>> images;  // images with the class, and its share of their pixels
};

std::vector<OfClass> count_pixels(const Dataset& data) {
  std::vector<OfClass> counts(data.class_names.size());
  for (OfClass& c : counts) c.pixels.resize(data.splits.size());
  for (size_t s = 0; s < data.splits.size(); ++s)
    for (size_t i = 0; i < data.splits[s].pixels.size(); ++i) {
      int64_t of_image = 0;
      for (const auto& [category, count] : data.splits[s].pixels[i]) of_image += count;
      for (const auto& [category, count] : data.splits[s].pixels[i]) {
        const size_t label = data.class_of(category);
        if (category < 0 || label == counts.size()) continue;
        counts[label].pixels[s] += count;
        counts[label].all += count;
        counts[label].images.push_back(
            {static_cast<double>(count) / static_cast<double>(of_image), ImagePlace{s, i}});
      }
    }
  for (OfClass& c : counts)
    std::ranges::stable_sort(c.images, [](const auto& a, const auto& b) { return a.first > b.first; });
  return counts;
}

std::vector<size_t> by_pixels(const std::vector<OfClass>& counts) {
  return falling_order(counts.size(), [&](size_t label) { return counts[label].all; });
}

// Returns the image with its labels over it; nothing if one of the two cannot be read.
Html show_labels(const Dataset& data, ImagePlace place, const Html& caption) {
  const ReportedSplit& split = data.splits[place.split];
  const ImageInfo& info = data.image(place);
  const std::optional<Image> image = open_picture(split, place.image);
  if (!image) return {};
  try {
    const LabelMap labels =
        read_label_map(info.label_file, {image->height, image->width}, *info.label_values,
                       [&](int64_t category) { return static_cast<int64_t>(data.class_of(category)); });
    Image small = small_picture(*image, {}, {}, kLabelSide);
    paint_labels(small, labels.resize({small.height, small.width}), data.class_names);
    return picture(small, info.file_name, caption);
  } catch (const InputError&) {  // the section of faults reports it
    return {};
  }
}

}  // namespace

void add_label_classes(Page& page, const Dataset& data) {
  page.section("Classes");
  const std::vector<OfClass> counts = count_pixels(data);
  const std::vector<size_t> order = by_pixels(counts);
  int64_t all = 0;
  for (const OfClass& c : counts) all += c.all;
  std::vector<TableColumn> columns{
      {"Class", false}, {"Pixels", false}, {"Share", true, "of all pixels that have a class"}};
  if (data.splits.size() > 1)
    for (const ReportedSplit& split : data.splits) columns.push_back({split.name});
  columns.insert(columns.end(), {{"Images", true, "that have such pixels"},
                                 {"Median fraction", true, "of an image that has such pixels"}});
  const int64_t most = order.empty() ? 0 : counts[order.front()].all;
  const auto part = [](int64_t count, int64_t of) {
    return static_cast<double>(count) / static_cast<double>(std::max<int64_t>(of, 1));
  };
  std::vector<std::vector<Html>> rows;
  for (size_t label : order) {
    if (rows.size() == kMaxClasses) break;
    const OfClass& c = counts[label];
    rows.push_back(cells(data.class_names[label], bar_cell(part(c.all, most), count_text(c.all)),
                         share_text(part(c.all, all))));
    if (data.splits.size() > 1)
      for (int64_t n : c.pixels) add_cells(rows.back(), count_text(n));
    add_cells(rows.back(), count_text(std::ssize(c.images)),
              share_text(c.images.empty() ? NAN : c.images[c.images.size() / 2].first));
  }
  page.add(html_table(columns, rows));
  if (order.size() > kMaxClasses)
    page.add(note(count_of(std::ssize(order) - static_cast<int64_t>(kMaxClasses), "more class has fewer.",
                           "more classes have fewer.")));
}

void add_label_images(Page& page, const Dataset& data) {
  page.section("Images");
  add_sizes(page, data);
  const std::vector<OfClass> counts = count_pixels(data);
  size_t shown_classes = 0;
  for (size_t label : by_pixels(counts)) {
    if (shown_classes == kShownClasses) break;
    const std::vector<Html> shown = first_shown(counts[label].images, kShownOfClass, [&](const auto& image) {
      const auto& [share, place] = image;
      return show_labels(data, place, html("<b>{}</b><br>{}", share_text(share), data.name_of(place)));
    });
    if (shown.empty()) continue;
    ++shown_classes;
    page.add(html("<h3>{}</h3>\n", data.class_names[label]));
    page.add(grid("pictures", shown));
  }
  if (shown_classes > 0) page.add(note("For each class, the images in which it covers the most."));
}

}  // namespace saccade::report
