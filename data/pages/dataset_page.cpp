#include "data/pages/dataset_page.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "data/pages/page_parts.h"

namespace saccade {
namespace report {

size_t Dataset::class_of(int64_t category_id) const {
  const auto at = std::ranges::lower_bound(categories, category_id, {}, &Category::id);
  return at != categories.end() && at->id == category_id ? static_cast<size_t>(at - categories.begin())
                                                         : class_names.size();
}

std::string Dataset::name_of(ImagePlace place) const {
  const std::string& name = image(place).file_name;
  return splits.size() > 1 ? splits[place.split].name + ": " + name : name;
}

Instance Dataset::drawn(const ReportedSplit& split, size_t annotation, const Image& image) const {
  const Annotation& a = split.truth.annotations[annotation];
  Instance drawn{
      .label = static_cast<int64_t>(class_of(a.category_id)), .box = box_of_corner(a.bbox), .score = -1};
  const ImageSize size{image.height, image.width};
  if (a.segmentation && (!a.segmentation->polygons.empty() || a.segmentation->runs.size() == size))
    drawn.mask = std::make_shared<const Mask>(a.segmentation->mask(size));
  return drawn;
}

Dataset make_dataset(const std::vector<ReportedSplit>& splits, const ImageLooks& looks) {
  Dataset data{.splits = splits, .looks = looks, .categories = {}, .class_names = {}, .boxes_of = {}};
  std::map<int64_t, std::vector<std::string>> names;  // several if splits differ
  for (const ReportedSplit& split : splits) {
    for (const Category& c : split.truth.categories)
      if (std::vector<std::string>& known = names[c.id]; std::ranges::find(known, c.name) == known.end())
        known.push_back(c.name);
    data.has_labels = data.has_labels || !split.pixels.empty();
    if (!split.image_classes.empty() || data.has_labels) data.has_boxes = false;
    std::unordered_map<int64_t, size_t> places;
    for (size_t i = 0; i < split.truth.images.size(); ++i) places.emplace(split.truth.images[i].id, i);
    data.boxes_of.emplace_back(split.truth.images.size());
    for (const Annotation& a : split.truth.annotations) data.has_masks = data.has_masks || a.segmentation;
    for (size_t k = 0; k < split.truth.annotations.size(); ++k)
      if (const auto it = places.find(split.truth.annotations[k].image_id); it != places.end())
        data.boxes_of.back()[it->second].push_back(k);
  }
  for (const auto& [id, known] : names) {
    data.class_names.push_back(fmt::format("{}", fmt::join(known, " / ")));
    data.categories.push_back({id, data.class_names.back()});
  }
  return data;
}

namespace {

// Finds ids that stand for another class than in an earlier split.
void find_renamed(std::vector<ReportedSplit>& splits) {
  std::map<int64_t, std::pair<std::string, std::string>> known;  // a name and the split that has it
  for (ReportedSplit& split : splits) {
    for (const Category& c : split.truth.categories)
      if (const auto it = known.find(c.id); it != known.end() && it->second.first != c.name)
        split.problems.add(fmt::format("category {} is \"{}\", but \"{}\" in {}", c.id, c.name,
                                       it->second.first, it->second.second));
    for (const Category& c : split.truth.categories) known.emplace(c.id, std::pair{c.name, split.name});
  }
}

std::string size_range(const std::set<std::pair<int64_t, int64_t>>& sizes) {
  if (sizes.empty()) return "–";
  int64_t w0 = INT64_MAX, w1 = 0, h0 = INT64_MAX, h1 = 0;
  for (const auto& [w, h] : sizes) {
    w0 = std::min(w0, w);
    w1 = std::max(w1, w);
    h0 = std::min(h0, h);
    h1 = std::max(h1, h);
  }
  auto side = [](int64_t low, int64_t high) {
    return low == high ? std::to_string(low) : fmt::format("{}–{}", low, high);
  };
  return side(w0, w1) + " × " + side(h0, h1);
}

}  // namespace

void add_overview(Page& page, const Dataset& data) {
  page.section("Overview");
  std::vector<std::vector<Html>> rows;
  int64_t images = 0, boxes = 0, masks = 0, most = 0;
  for (size_t s = 0; s < data.splits.size(); ++s) {
    const ReportedSplit& split = data.splits[s];
    std::set<std::pair<int64_t, int64_t>> sizes;
    for (const ImageInfo& i : split.truth.images)
      if (i.width > 0) sizes.emplace(i.width, i.height);
    int64_t empty = 0, largest = 0, crowds = 0, unread = 0, with_mask = 0;
    for (const auto& own : data.boxes_of[s]) {
      empty += own.empty();
      largest = std::max(largest, std::ssize(own));
    }
    for (const Annotation& a : split.truth.annotations) {
      crowds += a.iscrowd;
      with_mask += a.segmentation != nullptr;
    }
    for (const ImageLook& look : data.looks[s]) unread += !look.problem.empty();
    const auto n = std::ssize(split.truth.images), b = std::ssize(split.truth.annotations);
    images += n;
    boxes += b;
    masks += with_mask;
    most = std::max(most, largest);
    std::vector<Html> row = cells(split.name, count_text(n));
    if (data.has_boxes)
      add_cells(row, count_text(b),
                fmt::format("{:.1f}", n > 0 ? static_cast<double>(b) / static_cast<double>(n) : 0.0),
                count_text(largest), count_text(empty), count_text(crowds));
    if (data.has_masks) add_cells(row, count_text(with_mask));
    if (data.has_labels) {
      int64_t pixels = 0, without = 0;
      for (const ClassPixels& own : split.pixels)
        for (const auto& [category, count] : own) (category < 0 ? without : pixels) += count;
      add_cells(row, count_text(pixels + without),
                share_text(static_cast<double>(without) /
                           static_cast<double>(std::max<int64_t>(pixels + without, 1))));
    }
    add_cells(row, size_range(sizes), count_text(unread), split.paths.name());
    rows.push_back(std::move(row));
  }
  std::vector<std::pair<std::string, std::string>> numbers{{count_text(images), "images"}};
  if (data.has_boxes) numbers.emplace_back(count_text(boxes), "boxes");
  if (data.has_masks) numbers.emplace_back(count_text(masks), "masks");
  numbers.emplace_back(count_text(std::ssize(data.class_names)), "classes");
  if (data.has_boxes) numbers.emplace_back(count_text(most), "boxes in the fullest image");
  if (data.splits.size() > 1) numbers.emplace_back(count_text(std::ssize(data.splits)), "splits");
  page.add(tiles(numbers));
  std::vector<TableColumn> columns{{"Split", false}, {"Images"}};
  if (data.has_boxes)
    columns.insert(columns.end(), {{"Boxes"}, {"per image"}, {"at most"}, {"Images without"}, {"Crowds"}});
  if (data.has_masks) columns.push_back({"Masks", true, "boxes whose object has one"});
  if (data.has_labels)
    columns.insert(columns.end(),
                   {{"Pixels"}, {"Without a class", true, "ignored, or a value that is not a class"}});
  columns.insert(columns.end(), {{"Width × height", false},
                                 {"Unreadable", true, "examined images that cannot be read"},
                                 {"From", false}});
  page.add(html_table(columns, rows));
  if (data.has_boxes && most > 0)
    page.add(
        note(fmt::format("A detector needs more queries (model.transformer.queries) than the {} boxes of the "
                         "fullest image.",
                         most)));
}

void add_faults(Page& page, const Dataset& data) {
  page.section("Faults");
  bool any = false;
  for (size_t s = 0; s < data.splits.size(); ++s) {
    const ReportedSplit& split = data.splits[s];
    Findings found = split.problems;
    for (const ImageLook& look : data.looks[s]) {
      const std::string& why = look.problem.empty() ? look.damage : look.problem;
      if (why.empty()) continue;
      const size_t colon = why.rfind(": ");
      found.add(colon == std::string::npos ? why : why.substr(colon), why);
    }
    if (found.count() == 0 && split.remarks.empty()) continue;
    any = true;
    Html list;
    for (const std::string& line : found.lines()) list += html("<li>{}</li>\n", line);
    for (const std::string& line : split.remarks)
      list += html("<li>{} <small>(allowed, but rarely intended)</small></li>\n", line);
    page.add(html("<h3>{}: {} {}</h3>\n<ul>{}</ul>\n", split.name, count_text(found.count()),
                  found.count() == 1 ? "problem" : "problems", list));
  }
  if (!any || data.has_boxes)
    page.add(any ? note("“saccade data check --fix” writes the data set without the problems.")
                 : note("None: the lists are complete, and every examined image can be read."));
}

}  // namespace report

std::string dataset_page(std::vector<ReportedSplit>& splits, const DatasetPageOptions& options) {
  report::find_renamed(splits);
  const ImageLooks looks = look_at_images(splits, options.most_images, options.progress);
  const report::Dataset data = report::make_dataset(splits, looks);
  int64_t looked_at = 0;
  for (const auto& split : looks)
    for (const ImageLook& look : split) looked_at += look.is_looked_at;
  Page page("Data set " + options.title,
            html("The contents of the data set, their distribution, and what looks odd. {} {} examined.",
                 count_text(looked_at), looked_at == 1 ? "image was" : "images were"));
  report::add_overview(page, data);
  (data.has_labels ? report::add_label_classes : report::add_classes)(page, data);
  if (data.has_boxes) report::add_boxes(page, data);
  (data.has_labels ? report::add_label_images : report::add_images)(page, data);
  report::add_duplicates(page, data, looked_at);
  if (data.has_boxes) report::add_odd_boxes(page, data);
  report::add_faults(page, data);
  return page.finish(options.footer);
}

}  // namespace saccade
