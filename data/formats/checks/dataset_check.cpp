#include "data/formats/checks/dataset_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "core/files/text.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/checks/dataset_fix.h"
#include "data/formats/checks/image_findings.h"
#include "data/formats/checks/mask_check.h"
#include "data/formats/checks/units.h"
#include "data/formats/label_maps/label_values.h"
#include "data/formats/listing.h"

namespace saccade {
namespace {

// found: the inspected image files, or nothing; they give the size if the list does not.
void check_boxes(const GroundTruth& file, const std::vector<ImageFinding>& found, const std::string& name,
                 const ProblemReport& report) {
  std::unordered_map<int64_t, ImageSize> sizes;
  for (size_t i = 0; i < file.images.size(); ++i) {
    const ImageInfo& image = file.images[i];
    const ImageSize said{image.height, image.width};
    sizes.emplace(image.id, said.width > 0 || found.empty() ? said : found[i].size);
  }
  for (const Annotation& a : file.annotations) {
    const auto [x, y, w, h] = a.bbox;
    const auto report_box = [&](const std::string& what) {
      report(fmt::format("{}: {}", file.where(a, name, true), what));
    };
    const auto size = sizes.find(a.image_id);
    if (w <= 0 || h <= 0)
      report_box(fmt::format("the box [{}, {}, {}, {}] has {}", x, y, w, h,
                             w < 0 || h < 0 ? "a negative size" : "no area"));
    else if (size != sizes.end() && reaches_outside(a.bbox, size->second))
      report_box(fmt::format("the box [{}, {}, {}, {}] {} outside the image of {} x {} pixels", x, y, w, h,
                             is_empty(a.bbox, size->second) ? "lies" : "reaches", size->second.width,
                             size->second.height));
    if (a.area < 0) report_box(fmt::format("the area {} is negative", a.area));
  }
}

// Returns how often key(item) repeats an earlier value.
template <class Items, class Key>
int64_t count_repeats(const Items& items, Key key) {
  std::vector<decltype(key(*items.begin()))> keys;
  keys.reserve(items.size());
  for (const auto& item : items) keys.push_back(key(item));
  std::sort(keys.begin(), keys.end());
  return keys.end() - std::unique(keys.begin(), keys.end());
}

std::string plain_name(const std::string& name) {
  std::string plain;
  for (const char c : name)
    if (c != ' ' && c != '\t' && c != '_' && c != '-') plain += c;
  return lower_case(plain);
}

}  // namespace

std::vector<std::string> category_conflicts(const std::vector<Category>& expected,
                                            const std::vector<Category>& categories, const std::string& who) {
  std::map<int64_t, std::string> names;
  for (const Category& c : categories) names.emplace(c.id, c.name);
  std::vector<std::string> conflicts;
  for (const Category& c : expected) {
    const auto it = names.find(c.id);
    if (it == names.end())
      conflicts.push_back(fmt::format("has no category {} (\"{}\"), which {} has", c.id, c.name, who));
    else if (it->second != c.name)
      conflicts.push_back(
          fmt::format("category {} is \"{}\", but \"{}\" for {}", c.id, it->second, c.name, who));
  }
  return conflicts;
}

std::vector<std::string> remarks_on_names(const std::vector<Category>& categories) {
  std::vector<std::string> remarks;
  std::map<std::string, std::vector<int64_t>> names;
  std::map<std::string, std::string> alike;  // maps a name without capitals and blanks to the original
  for (const Category& c : categories) {
    names[c.name].push_back(c.id);
    const auto [it, is_new] = alike.try_emplace(plain_name(c.name), c.name);
    if (is_new || it->second == c.name || remarks.size() > 20) continue;
    remarks.push_back(fmt::format(
        "the categories \"{}\" and \"{}\" differ only in case, spaces, _ or -, but are two classes",
        it->second, c.name));
  }
  for (const auto& [name, ids] : names) {
    if (name.empty()) remarks.push_back(fmt::format("category {} has an empty name", ids[0]));
    if (std::ranges::any_of(name, [](char c) { return (c >= 0 && c < ' ') || c == 127; }))
      remarks.push_back(
          fmt::format("the name of category {}, \"{}\", has control characters", ids[0], printable(name)));
    if (ids.size() > 1)
      remarks.push_back(fmt::format("{} categories have the name \"{}\", among them ids {} and {}",
                                    ids.size(), name, ids[0], ids[1]));
    if (remarks.size() > 20) break;
  }
  return remarks;
}

// The remark on classes that the set has no boxes or pixels of.
std::string without_any(const std::vector<std::string>& names, int64_t all, const std::string& things,
                        const std::string& what) {
  return fmt::format("{} no {}: {}; {} of the model",
                     count_among(std::ssize(names), all, things, "has", "have"), what, some_of(names, 5),
                     names.size() == 1 ? "it is a class" : "each is a class");
}

std::vector<std::string> remarks_on_classes(const GroundTruth& file) {
  std::vector<std::string> remarks;
  if (file.annotations.empty())
    remarks.push_back("no image has an annotation, so there is nothing to learn");
  else if (std::all_of(file.annotations.begin(), file.annotations.end(), [](auto& a) { return a.iscrowd; }))
    remarks.push_back("all annotations are crowds, which training leaves out");
  std::set<int64_t> used;
  for (const Annotation& a : file.annotations) used.insert(a.category_id);
  std::vector<std::string> unused;
  for (const Category& c : file.categories)
    if (!used.contains(c.id) && !file.annotations.empty())
      unused.push_back(fmt::format("{} (\"{}\")", c.id, c.name));
  if (!unused.empty())
    remarks.push_back(without_any(unused, std::ssize(file.categories), "categories", "annotation"));
  for (std::string& remark : remarks_on_names(file.categories)) remarks.push_back(std::move(remark));
  return remarks;
}

namespace {

void add_remarks_on_repeats(const GroundTruth& file, std::vector<std::string>& remarks) {
  auto box = [](const Annotation& a) { return std::tuple(a.image_id, a.category_id, a.bbox); };
  if (int64_t n = count_repeats(file.annotations, box); n > 0)
    remarks.push_back(count_of(n, "box repeats", "boxes repeat") + " another of the same image and category");
}

// Returns "640 pixels wide and 480 high", or the ranges.
template <class Items, class Side>
std::string range_of(const Items& items, Side width, Side height) {
  auto [w0, w1] =
      std::minmax_element(items.begin(), items.end(), [&](auto& a, auto& b) { return width(a) < width(b); });
  auto [h0, h1] = std::minmax_element(items.begin(), items.end(),
                                      [&](auto& a, auto& b) { return height(a) < height(b); });
  auto text = [](auto low, auto high) {
    return low == high ? fmt::format("{:g}", low) : fmt::format("{:g} to {:g}", low, high);
  };
  return fmt::format("{} pixels wide and {} high", text(width(*w0), width(*w1)),
                     text(height(*h0), height(*h1)));
}

// Returns the twenty most frequent, in descending order.
std::string frequencies(std::vector<std::pair<std::string, int64_t>> counts) {
  std::ranges::stable_sort(counts, std::ranges::greater(), &std::pair<std::string, int64_t>::second);
  std::vector<std::string> words;
  for (const auto& [name, count] : counts) words.push_back(fmt::format("\"{}\" {}", name, count));
  return some_of(words, 20);
}

// Checks masks of images whose size only the file gives.
void check_unsized_masks(const GroundTruth& truth, const std::vector<ImageFinding>& found,
                         const std::string& name, const ProblemReport& report) {
  GroundTruth unsized;
  unsized.files = truth.files;
  std::unordered_set<int64_t> ids;
  for (size_t i = 0; i < found.size(); ++i) {
    if (truth.images[i].width > 0 || found[i].size.width <= 0) continue;
    unsized.images.push_back(truth.images[i]);
    unsized.images.back().width = found[i].size.width;
    unsized.images.back().height = found[i].size.height;
    ids.insert(truth.images[i].id);
  }
  for (const Annotation& a : truth.annotations)
    if (a.segmentation && ids.contains(a.image_id)) unsized.annotations.push_back(a);
  check_masks(unsized, name, report);
}

void add_summary(const GroundTruth& file, std::vector<std::string>& summary) {
  std::map<int64_t, int64_t> boxes_of;
  std::set<int64_t> with_boxes;
  int64_t crowds = 0, masks = 0;
  for (const Annotation& a : file.annotations) {
    ++boxes_of[a.category_id];
    with_boxes.insert(a.image_id);
    crowds += a.iscrowd;
    masks += a.segmentation != nullptr;
  }
  summary.push_back(fmt::format(
      "{}, {} without boxes; {}, among them {}; {}", count_of(std::ssize(file.images), "image", "images"),
      file.images.size() - std::min(file.images.size(), with_boxes.size()),
      count_of(std::ssize(file.annotations), "box", "boxes"), count_of(crowds, "crowd", "crowds"),
      count_of(std::ssize(file.categories), "category", "categories")));
  if (masks > 0)
    summary.push_back("masks: " +
                      count_among(masks, std::ssize(file.annotations), "boxes", "has one", "have one"));
  std::vector<ImageInfo> sized = file.images;
  std::erase_if(sized, [](const ImageInfo& i) { return i.width <= 0; });
  using Side = double (*)(const ImageInfo&);
  if (!sized.empty())
    summary.push_back(
        fmt::format("images: {}", range_of<std::vector<ImageInfo>, Side>(
                                      sized, [](const ImageInfo& i) { return static_cast<double>(i.width); },
                                      [](const ImageInfo& i) { return static_cast<double>(i.height); })));
  using BoxSide = double (*)(const Annotation&);
  if (!file.annotations.empty())
    summary.push_back(
        fmt::format("boxes: {}", range_of<std::vector<Annotation>, BoxSide>(
                                     file.annotations, [](const Annotation& a) { return a.bbox[2]; },
                                     [](const Annotation& a) { return a.bbox[3]; })));
  std::vector<std::pair<std::string, int64_t>> counts;
  for (const Category& c : file.categories) counts.emplace_back(c.name, boxes_of[c.id]);
  const std::string text = frequencies(counts);
  if (!text.empty()) summary.push_back("boxes by category: " + text);
}

}  // namespace

void check_ground_truth(const GroundTruth& truth, const DataPaths& paths, int threads, DatasetReport& report,
                        GroundTruth* left) {
  const ProblemReport add = [&](const std::string& problem) { report.problems.add(problem); };
  const auto add_of_all = [&](const std::string& what) {
    add(fmt::format("{}: {}", paths.annotations, what));
  };
  if (truth.images.empty()) add_of_all("the list of images is empty");
  if (truth.categories.empty()) add_of_all("the list of categories is empty");
  check_ids(truth, paths.annotations, add);
  const bool has_images = !paths.images.empty() && paths.look_at_images;
  const std::vector<ImageFinding> found =
      has_images ? inspect_images(truth, paths, threads) : std::vector<ImageFinding>();
  check_boxes(truth, found, paths.annotations, add);
  std::vector<ImageSize> sizes;
  for (const ImageFinding& f : found) sizes.push_back(f.size);
  report.units = boxes_that_are_parts(truth);
  if (!report.units.empty()) add_of_all(report.units);
  add_summary(truth, report.summary);
  report.remarks = truth.notes;
  if (report.units.empty()) report.units = boxes_of_other_form(truth, sizes);
  for (auto remarks : {remarks_on_boxes(truth, sizes), remarks_on_classes(truth), remarks_on_metrics(truth)})
    report.remarks.insert(report.remarks.end(), remarks.begin(), remarks.end());
  add_remarks_on_repeats(truth, report.remarks);
  if (has_images) tell_of_images(found, truth, paths, report);
  check_unsized_masks(truth, found, paths.annotations, add);
  if (left == nullptr) return;
  std::vector<SeenImage> seen;
  for (const ImageFinding& f : found) seen.push_back({f.size, !f.problem.empty()});
  *left = what_is_left(truth, seen, report.left_out);
}

void check_class_images(const GroundTruth& truth, const DataPaths& paths, int threads,
                        DatasetReport& report) {
  GroundTruth images = truth;
  const Place whole = images.add_file(paths.name());
  std::map<int64_t, int64_t> counts;
  for (ImageInfo& image : images.images) {
    image.place = whole;
    ++counts[image.category_id.value()];
  }
  std::vector<std::pair<std::string, int64_t>> named;
  for (const Category& c : truth.categories) named.emplace_back(c.name, counts[c.id]);
  report.summary = truth.told;
  report.summary.push_back("images by class: " + frequencies(named));
  report.remarks = remarks_on_names(truth.categories);
  DataPaths of_set = paths;
  of_set.annotations = paths.name();
  tell_of_images(inspect_images(images, of_set, threads), images, of_set, report);
}

void check_label_images(const GroundTruth& truth, const DataPaths& paths, int threads, DatasetReport& report,
                        std::vector<ClassPixels>* of_images) {
  std::vector<std::map<uint32_t, int64_t>> values(truth.images.size());
  std::vector<std::string> faults(truth.images.size());
  run_tasks(std::ssize(truth.images), threads, [&](int64_t i) {
    const auto k = static_cast<size_t>(i);
    const ImageInfo& image = truth.images[k];
    try {
      values[k] = read_label_values(image.label_file, image.label_values->are_colors).counts;
      faults[k] = unknown_values(image.label_file, values[k], *image.label_values);
    } catch (const InputError& e) {
      faults[k] = e.what();
    }
  });
  for (const std::string& fault : faults)
    if (!fault.empty()) report.problems.add(fault);
  ClassPixels pixels;
  int64_t all = 0;
  if (of_images != nullptr) of_images->assign(values.size(), {});
  for (size_t i = 0; i < values.size(); ++i)
    for (const auto& [value, count] : values[i]) {
      const auto& categories = truth.images[i].label_values->categories;
      const auto it = categories.find(value);
      const int64_t category = it == categories.end() ? -1 : it->second;
      pixels[category] += count;
      if (of_images != nullptr) (*of_images)[i][category] += count;
      all += count;
    }
  std::vector<std::pair<std::string, int64_t>> named;
  std::vector<std::string> missing;
  for (const Category& c : truth.categories) {
    named.emplace_back(c.name, pixels[c.id]);
    if (pixels[c.id] == 0) missing.push_back(fmt::format("\"{}\"", c.name));
  }
  report.summary = truth.told;
  report.summary.push_back(fmt::format("{} pixels, {} of them without a class", all, pixels[-1]));
  report.summary.push_back("pixels by class: " + frequencies(named));
  report.remarks = remarks_on_names(truth.categories);
  if (all == pixels[-1])
    report.remarks.emplace_back("no pixel has a class, so there is nothing to learn or to evaluate");
  if (!missing.empty())
    report.remarks.push_back(without_any(missing, std::ssize(truth.categories), "classes", "pixel"));
  if (!paths.images.empty() && paths.look_at_images)
    tell_of_images(inspect_images(truth, paths, threads), truth, paths, report);
}

}  // namespace saccade
