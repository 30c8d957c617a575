#include "data/formats/joining/class_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/files/nearest.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/label_maps/label_values.h"
#include "data/formats/listing.h"

namespace saccade {
namespace {

constexpr size_t kListed = 10;  // class names in a line

void refuse_unknown(const std::string& name, const std::vector<std::string>& known, const char* field,
                    const std::string& data) {
  if (std::ranges::find(known, name) != known.end()) return;
  std::vector<std::string> quoted;
  for (const std::string& k : known) quoted.push_back(fmt::format("\"{}\"", printable(k)));
  const std::string meant = did_you_mean(printable(nearest_name(name, known)));
  fail_input("{}: {}: has no class \"{}\"{} are {}", data, field, printable(name),
             meant.empty() ? "; its classes" : meant + " Its classes", some_of(quoted, kListed));
}

}  // namespace

std::string ClassChoice::name_of(const std::string& name) const {
  const auto found = std::ranges::find(map, name, &Mapping::name);
  const std::string& as = found == map.end() ? name : found->as;
  return only.empty() || std::ranges::find(only, as) != only.end() ? as : "";
}

void check_choice(const ClassChoice& choice, const std::vector<std::string>& names, const std::string& data) {
  for (const ClassChoice::Mapping& mapping : choice.map)
    refuse_unknown(mapping.name, names, "data.class_map", data);
  const ClassChoice mapping{.map = choice.map};
  std::vector<std::string> mapped;
  std::unordered_set<std::string> seen;
  for (const std::string& name : names)
    if (std::string as = mapping.name_of(name); !as.empty() && seen.insert(as).second)
      mapped.push_back(std::move(as));
  if (mapped.empty() && !names.empty()) fail_input("{}: data.class_map: leaves no class", data);
  for (const std::string& name : choice.only) refuse_unknown(name, mapped, "--classes, data.classes", data);
}

void choose_classes(GroundTruth& truth, const ClassChoice& choice) {
  if (choice.takes_all()) return;
  std::map<std::string, int64_t> ids;
  std::unordered_set<std::string> taken;  // names
  for (const Category& c : truth.categories) taken.insert(choice.name_of(c.name));
  for (const Category& c : truth.categories)
    if (taken.contains(c.name) && !choice.name_of(c.name).empty()) ids.emplace(c.name, c.id);
  for (const Category& c : truth.categories) ids.emplace(choice.name_of(c.name), c.id);
  std::vector<Category> categories;
  std::unordered_set<int64_t> listed;  // includes categories that keep their own id
  for (const Category& c : truth.categories)
    if (choice.name_of(c.name) == c.name) listed.insert(c.id);
  std::unordered_map<int64_t, int64_t> kept;  // maps categories that stay to their new ids
  std::unordered_map<int64_t, int64_t> boxes;
  for (const Annotation& a : truth.annotations) ++boxes[a.category_id];
  ChoiceCounts counts(choice);
  std::unordered_set<int64_t> known;
  for (const Category& c : truth.categories) {
    if (known.insert(c.id).second) counts.add(c.name, boxes.contains(c.id) ? boxes.at(c.id) : 0);
    const std::string as = choice.name_of(c.name);
    if (as.empty()) continue;
    const int64_t id = as == c.name ? c.id : ids.at(as);  // two categories with the same name stay separate
    kept.emplace(c.id, id);
    if (as == c.name || listed.insert(id).second) categories.push_back({id, as});
    if (id != c.id) truth.mapped_ids.emplace(c.id, id);
  }
  std::unordered_set<int64_t> with_boxes, emptied;  // images
  std::erase_if(truth.annotations, [&](Annotation& a) {
    const auto it = kept.find(a.category_id);
    const bool stays = it != kept.end() || !known.contains(a.category_id);  // the check of ids reports it
    if (it != kept.end()) a.category_id = it->second;
    (stays ? with_boxes : emptied).insert(a.image_id);
    return !stays;
  });
  truth.categories = std::move(categories);
  remap_labels(truth, kept);
  const bool has_maps =
      std::ranges::any_of(truth.images, [](const ImageInfo& image) { return image.label_values != nullptr; });
  std::vector<std::string> lines = counts.lines(has_maps ? "pixels" : truth.drawn_labels ? "masks" : "boxes");
  const auto left = std::ranges::count_if(emptied, [&](int64_t id) { return !with_boxes.contains(id); });
  if (left > 0 && choice.empties_stay)
    lines.push_back(fmt::format("{} no object of these classes and {} without objects",
                                count_of(left, "image has", "images have"),
                                left == 1 ? "stays as an image" : "stay as images"));
  truth.notes.insert(truth.notes.end(), lines.begin(), lines.end());
}

void ChoiceCounts::add(const std::string& name, int64_t count) {
  all_ += count;
  counts_.push_back({name, choice_.name_of(name), count});
}

std::vector<std::string> ChoiceCounts::lines(const char* what) const {
  const bool are_counted = what != std::string_view("pixels");
  const auto named = [&](const Count& c) {
    return are_counted ? fmt::format("\"{}\" {}", printable(c.name), c.count)
                       : fmt::format("\"{}\"", printable(c.name));
  };
  std::vector<std::string> out, renamed;
  std::vector<Count> once, left;  // once: each name only once
  std::unordered_map<std::string, size_t> places;
  for (const Count& c : counts_)
    if (const auto [it, is_new] = places.try_emplace(c.name, once.size()); is_new)
      once.push_back(c);
    else
      once[it->second].count += c.count;
  int64_t count = 0;
  for (const Count& c : once) {
    if (c.as.empty()) {
      left.push_back(c);
      count += c.count;
    } else if (c.as != c.name) {
      renamed.push_back(fmt::format("{} as \"{}\"", named(c), printable(c.as)));
    }
  }
  if (!renamed.empty())
    out.push_back(fmt::format("{} mapped to other classes: {}", what, some_of(renamed, kListed)));
  if (left.empty()) return out;
  std::ranges::stable_sort(left, std::ranges::greater(), &Count::count);
  std::vector<std::string> words;
  for (const Count& c : left) words.push_back(named(c));
  const std::string classes = count_of(std::ssize(left), "class", "classes");
  if (!are_counted) {
    out.push_back(
        fmt::format("pixels of {} count as pixels without a class: {}", classes, some_of(words, kListed)));
    return out;
  }
  out.push_back(fmt::format("{} of {} {} left out, those of {}: {}", count, all_, what, classes,
                            some_of(words, kListed)));
  return out;
}

}  // namespace saccade
