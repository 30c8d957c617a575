// The images with the most and fewest objects, duplicates and odd boxes, as pictures.
#include <algorithm>

#include "data/pages/chart.h"
#include "data/pages/odd_boxes.h"
#include "data/pages/page_parts.h"

namespace saccade::report {
namespace {

constexpr int64_t kPictureSide = 300, kCutSide = 200;
constexpr size_t kShownImages = 6, kShownGroups = 18, kNamedGroups = 300;

Html show_image(const Dataset& data, ImagePlace place, const Html& caption, int64_t side = kPictureSide) {
  const ReportedSplit& split = data.splits[place.split];
  const std::optional<Image> image = open_picture(split, place.image);
  if (!image) return {};
  std::vector<Instance> boxes;
  for (size_t k : data.boxes_of[place.split][place.image]) boxes.push_back(data.drawn(split, k, *image));
  return picture(small_picture(*image, boxes, data.class_names, side), data.image(place).file_name, caption);
}

}  // namespace

void add_sizes(Page& page, const Dataset& data) {
  std::vector<double> sides, ratios;
  for (const ReportedSplit& split : data.splits)
    for (const ImageInfo& i : split.truth.images) {
      if (i.width <= 0 || i.height <= 0) continue;
      sides.push_back(static_cast<double>(std::min(i.width, i.height)));
      ratios.push_back(static_cast<double>(i.width) / static_cast<double>(i.height));
    }
  auto varies = [](const std::vector<double>& v) {
    return !v.empty() && *std::min_element(v.begin(), v.end()) < *std::max_element(v.begin(), v.end());
  };
  std::vector<Html> charts;
  if (varies(sides))
    charts.push_back(
        histogram_chart(Histogram::of(sides, false), {.title = "Short side", .x_label = "pixels"}));
  if (varies(ratios))
    charts.push_back(
        histogram_chart(Histogram::of(ratios, true), {.title = "Shape", .x_label = "width / height"}));
  page.add(charts.empty() ? note("All images have one size.") : grid("charts", charts));
}

void add_images(Page& page, const Dataset& data) {
  page.section("Images");
  add_sizes(page, data);
  std::vector<ImagePlace> places;
  for (size_t s = 0; s < data.splits.size(); ++s)
    for (size_t i = 0; i < data.splits[s].truth.images.size(); ++i) places.push_back({s, i});
  auto count = [&](ImagePlace p) { return std::ssize(data.boxes_of[p.split][p.image]); };
  auto show = [&](ImagePlace p) {
    return show_image(
        data, p,
        html("<b>{}</b> {}<br>{}", count_text(count(p)), count(p) == 1 ? "box" : "boxes", data.name_of(p)));
  };
  if (!data.has_boxes) {
    // Shows an example of each class.
    std::vector<bool> seen(data.class_names.size());
    auto example = [&](ImagePlace p) -> Html {
      const size_t label = data.splits[p.split].image_classes[p.image];
      if (seen[label]) return {};
      Html shown =
          show_image(data, p, html("<b>{}</b><br>{}", data.class_names[label], data.name_of(p)), 200);
      seen[label] = !shown.code.empty();
      return shown;
    };
    page.add(html("<h3>An image of each class</h3>\n"));
    page.add(grid("pictures", first_shown(places, 24, example)));
    return;
  }
  std::ranges::stable_sort(places, std::ranges::greater(), count);
  page.add(html("<h3>Most boxes</h3>\n"));
  page.add(grid("pictures", first_shown(places, kShownImages, show)));
  std::ranges::stable_sort(places, {}, count);
  page.add(html("<h3>Fewest boxes</h3>\n"));
  page.add(grid("pictures", first_shown(places, kShownImages, show)));
}

void add_duplicates(Page& page, const Dataset& data, int64_t looked_at) {
  page.section("Duplicates");
  const std::vector<DuplicateGroup> groups = find_duplicates(data.looks);
  int64_t leaks = 0, exact_leaks = 0, copies = 0, images = 0;
  for (const DuplicateGroup& g : groups) {
    leaks += g.is_leak;
    exact_leaks += g.is_exact_leak;
    copies += g.copies;
    images += std::ssize(g.images) - 1;
  }
  const bool may_leak = data.splits.size() > 1;
  page.add(tiles({{count_text(std::ssize(groups)), "groups of similar images"},
                  {count_text(images), "redundant images"},
                  {count_text(copies), "of them with the same bytes"},
                  {may_leak ? count_text(leaks) : "–", "groups in two splits: leaks"},
                  {may_leak ? count_text(exact_leaks) : "–", "of them with the same bytes"}}));
  if (leaks > 0) page.add(note("Training images in the validation set make its metrics too good."));
  int64_t all = 0;
  for (const ReportedSplit& split : data.splits) all += std::ssize(split.truth.images);
  if (looked_at < all)
    page.add(note(fmt::format("{} of {} images were examined and compared; --look-at N examines more.",
                              count_text(looked_at), count_text(all))));
  auto caption = [&](const DuplicateGroup& g) {
    Html text = html("<b>{}{}</b>", g.is_exact ? "the same bytes" : "nearly the same",
                     g.is_leak ? ", in two splits" : "");
    if (!g.is_exact && g.copies > 0)
      text +=
          html(", {} with the same bytes as another{}", g.copies, g.is_exact_leak ? " in two splits" : "");
    const size_t named = std::min<size_t>(g.images.size(), 4);
    for (size_t i = 0; i < named; ++i) text += html("<br>{}", data.name_of(g.images[i]));
    if (named < g.images.size()) text += html("<br>and {} more", g.images.size() - named);
    return text;
  };
  auto show = [&](const DuplicateGroup& g) -> Html {
    const ImagePlace a = g.images.front(), b = g.images.back();
    const std::optional<Image> left = open_picture(data.splits[a.split], a.image),
                               right = open_picture(data.splits[b.split], b.image);
    if (!left || !right) return {};
    return picture(
        side_by_side(small_picture(*left, {}, {}, kCutSide), small_picture(*right, {}, {}, kCutSide)),
        data.name_of(a) + ", " + data.name_of(b), caption(g));
  };
  page.add(grid("pictures wide", first_shown(groups, kShownGroups, show)));
  if (groups.size() <= kShownGroups) return;
  Html list;
  for (size_t i = kShownGroups; i < std::min(groups.size(), kNamedGroups); ++i)
    list += html("<li>{}</li>\n", caption(groups[i]));
  page.add(details(fmt::format("{} more groups", groups.size() - kShownGroups), html("<ol>{}</ol>", list)));
}

void add_odd_boxes(Page& page, const Dataset& data) {
  page.section("Odd boxes");
  std::vector<std::vector<Html>> rows;
  const std::vector<OddKind> kinds = find_odd_boxes(data.splits);
  for (const OddKind& kind : kinds)
    rows.push_back(cells(kind.title, count_text(kind.count), kind.explanation));
  page.add(html_table({{"Kind", false}, {"Boxes"}, {"Which", false}}, rows));
  for (const OddKind& kind : kinds) {
    auto show = [&](const OddBox& odd) -> Html {
      const ReportedSplit& split = data.splits[odd.place.split];
      const std::optional<Image> image = open_picture(split, odd.place.image);
      if (!image) return {};
      std::vector<Instance> others;
      if (odd.other >= 0) others.push_back(data.drawn(split, static_cast<size_t>(odd.other), *image));
      const Instance box = data.drawn(split, odd.annotation, *image);
      const size_t label = static_cast<size_t>(box.label);
      return picture(
          cut_around(*image, box, others, data.class_names, kCutSide), data.name_of(odd.place),
          html("<b>{}</b> {}<br>{} of {}",
               label < data.class_names.size() ? data.class_names[label] : "unknown class", odd.what,
               split.truth.name_of(split.truth.annotations[odd.annotation]), data.name_of(odd.place)));
    };
    const std::vector<Html> shown = first_shown(kind.shown, kShownOddBoxes, show);
    if (shown.empty()) continue;
    page.add(html("<h3>{}</h3>\n", kind.title));
    page.add(grid("pictures", shown));
  }
}

}  // namespace saccade::report
