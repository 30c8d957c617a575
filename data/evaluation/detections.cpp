#include "data/evaluation/detections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/evaluation/image_names.h"
#include "data/evaluation/result_file.h"
#include "data/formats/checks/mask_check.h"
#include "data/formats/coco/segmentation_json.h"

namespace saccade {
namespace {

void note(std::vector<std::string>* notes, int64_t count, const std::string& text) {
  if (notes != nullptr && count > 0) notes->push_back(text);
}

// Annotations that do not number images are read with list positions as ids. Programs that read the same
// files use the numbers in the file names as ids (Ultralytics), so a list that contains only such numbers is
// interpreted that way.
void take_numbers_of_files(const std::string& path, ResultFile& file, const ImageNames& names,
                           std::vector<std::string>* notes) {
  std::vector<std::optional<int64_t>> ids(file.entries.size());
  int64_t taken = 0, other = 0;
  for (size_t i = 0; i < file.entries.size(); ++i) {
    const Listed& e = file.entries[i];
    if (e.file_name != kNoName || e.word != kNoName || !e.has_id) continue;
    const std::optional<int64_t> id = names.find_number(file.detections[i].image_id);
    if (!id) return;
    ids[i] = id;
    ++taken;
    other += *id != file.detections[i].image_id;
  }
  if (taken == 0) return;
  for (size_t i = 0; i < file.entries.size(); ++i)
    if (ids[i]) file.detections[i].image_id = *ids[i];
  note(notes, other,
       fmt::format("{}: the annotations give images no numbers, so image_id is compared with the number in "
                   "the image's file name",
                   path));
}

// Gives each entry the id of the image that it names.
void find_images(const std::string& path, ResultFile& file, ImageNames& names,
                 std::vector<std::string>* notes) {
  struct Found {
    bool is_known = false;
    std::string problem;
    int64_t id = 0;
  };
  std::vector<Found> found(static_cast<size_t>(file.texts.size()));
  int64_t named = 0, other_ids = 0, unknown = 0, first_unknown = kNoName;
  for (size_t i = 0; i < file.entries.size(); ++i) {
    const Listed& e = file.entries[i];
    const int64_t name = e.file_name != kNoName ? e.file_name : e.word;
    if (name == kNoName) continue;
    ++named;
    Found& f = found[static_cast<size_t>(name)];
    if (!f.is_known) {
      f.problem = e.file_name != kNoName ? names.find_file(file.texts.at(name), f.id)
                                         : names.find_word(file.texts.at(name), f.id);
      f.is_known = true;
    }
    if (f.problem.empty()) {
      other_ids += e.has_id && file.detections[i].image_id != f.id;
      file.detections[i].image_id = f.id;
    } else if (e.has_id && names.has_id(file.detections[i].image_id)) {
      if (unknown++ == 0) first_unknown = name;
    } else {
      fail_input("{}: entry {}: {}", path, i + 1, f.problem);
    }
  }
  note(notes, other_ids,
       fmt::format(
           "{}: in {} of {} entries, image_id is not the id that the annotations give the named file; the "
           "file name counts",
           path, other_ids, file.entries.size()));
  if (unknown > 0 && unknown == named)
    fail_input(
        "{}: none of the files that its entries name is in the annotations (the first is \"{}\"), expected detections in "
        "the same images; without \"file_name\", image_id counts",
        path, shortened(file.texts.at(first_unknown)));
  if (unknown > 0)
    note(notes, unknown,
         fmt::format("{}: {} not in the annotations, for example \"{}\"; image_id counts", path,
                     count_among(unknown, std::ssize(file.entries), "entries", "names a file that is",
                                 "name files that are"),
                     shortened(file.texts.at(first_unknown))));
}

void note_mapped(const std::string& path, int64_t mapped, size_t count, std::vector<std::string>* notes) {
  note(notes, mapped,
       fmt::format("{}: {} that data.class_map maps to {}", path,
                   count_among(mapped, static_cast<int64_t>(count), "entries", "has a class", "have classes"),
                   mapped == 1 ? "another" : "others"));
}

// Replaces ids of categories that are mapped to others by the ids of these.
void take_mapped_ids(const std::string& path, ResultFile& file, const GroundTruth& truth,
                     std::vector<std::string>* notes) {
  std::unordered_map<int64_t, int64_t> ids = truth.mapped_ids;
  for (const Category& c : truth.categories) ids.erase(c.id);
  int64_t mapped = 0;
  for (Detection& d : file.detections)
    if (const auto it = ids.find(d.category_id); it != ids.end()) {
      d.category_id = it->second;
      ++mapped;
    }
  note_mapped(path, mapped, file.detections.size(), notes);
}

// Gives each entry the id of the category that it names, and leaves out entries with unknown categories if
// some are known.
void find_categories(const std::string& path, ResultFile& file, const GroundTruth& truth,
                     const ClassChoice& choice, std::vector<std::string>* notes) {
  std::unordered_map<std::string, std::optional<int64_t>> ids;  // nothing if several have the name
  for (const Category& c : truth.categories)
    if (const auto [it, is_new] = ids.try_emplace(c.name, c.id); !is_new && it->second != c.id)
      it->second.reset();
  const std::unordered_map<std::string, std::optional<int64_t>> own_names = ids;
  // A model may know a class that the map removes. A class that others are mapped to keeps its name.
  std::unordered_set<std::string> mapped_names;
  for (const ClassChoice::Mapping& mapping : choice.map) {
    const auto as = own_names.find(mapping.as);
    if (as == own_names.end() ||
        std::ranges::find(choice.map, mapping.name, &ClassChoice::Mapping::as) != choice.map.end())
      continue;
    ids.insert_or_assign(mapping.name, as->second);
    mapped_names.insert(mapping.name);
  }
  int64_t named = 0, first_named = kNoName;
  bool any = false;
  for (const Listed& e : file.entries) {
    if (e.category == kNoName) continue;
    if (named++ == 0) first_named = e.category;
    any = any || ids.contains(file.texts.at(e.category));
  }
  if (!any)
    for (size_t i = 0; i < file.entries.size(); ++i)
      if (!file.entries[i].has_category)
        fail_input("{}: entry {}: no category of the annotations is called \"{}\"", path, i + 1,
                   shortened(file.texts.at(file.entries[i].category)));
  if (!any && named > 0)  // other programs use the field for other things
    note(notes, named,
         fmt::format("{}: {} that the annotations lack, for example \"{}\"; category_id counts", path,
                     count_among(named, std::ssize(file.entries), "entries", "names a category",
                                 "name only categories"),
                     shortened(file.texts.at(first_named))));
  if (!any) return;
  int64_t others = 0, mapped = 0, unknown = 0, first_unknown = kNoName;
  const size_t count = file.entries.size();
  // Returns the id for the name; nothing if the entry is left out.
  auto id_of = [&](size_t i) -> std::optional<int64_t> {
    const Listed& e = file.entries[i];
    const int64_t own = file.detections[i].category_id;
    if (e.category == kNoName) return own;
    const auto it = ids.find(file.texts.at(e.category));
    if (it == ids.end()) {
      if (unknown++ == 0) first_unknown = e.category;
      return std::nullopt;
    }
    if (!it->second && !e.has_category)
      fail_input(
          "{}: entry {}: several categories of the annotations are called \"{}\", expected category_id", path,
          i + 1, shortened(it->first));
    const int64_t id = it->second.value_or(own);
    if (e.has_category) (mapped_names.contains(it->first) ? mapped : others) += id != own;
    return id;
  };
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::optional<int64_t> id = id_of(i);
    if (!id) continue;
    if (kept != i) file.detections[kept] = std::move(file.detections[i]);
    file.detections[kept++].category_id = *id;
  }
  file.detections.resize(kept);
  note(notes, others,
       fmt::format(
           "{}: in {} of {} entries, category_id is not the id that the annotations give the named category; "
           "the name counts",
           path, others, count));
  note_mapped(path, mapped, count, notes);
  if (unknown > 0)
    note(notes, unknown,
         fmt::format("{}: {}, for example \"{}\"", path,
                     count_among(unknown, static_cast<int64_t>(count), "entries",
                                 "is left out because its category is not in the annotations",
                                 "are left out because their categories are not in the annotations"),
                     shortened(file.texts.at(first_unknown))));
}

// Makes masks of the polygons, and boxes of the masks if there are none.
void find_masks(const std::string& path, ResultFile& file, const GroundTruth* truth,
                std::vector<std::string>* notes) {
  std::unordered_map<int64_t, ImageSize> sizes;
  if (truth != nullptr)
    for (const ImageInfo& image : truth->images)
      sizes.emplace(image.id, ImageSize{image.height, image.width});
  int64_t points = 0;
  size_t first = 0;
  for (const auto& [i, segmentation] : file.polygons) {
    Detection& d = file.detections[i];
    const auto size = sizes.find(d.image_id);
    if (size == sizes.end() || size->second == ImageSize{})
      fail_input("{}: entry {}: its polygons need an image of known size", path, i + 1);
    try {
      Segmentation areas = *segmentation;
      const int64_t left_out = leave_out_points(areas);
      if (points == 0) first = i + 1;
      points += left_out;
      d.mask = std::make_shared<Mask>(Mask::from_polygons(size->second, areas.polygons));
    } catch (const InputError& error) {
      fail_input("{}: entry {}: {}", path, i + 1, error.what());
    }
  }
  note(notes, points,
       fmt::format("{}: {} fewer than three points and {} left out, for example in entry {}", path,
                   count_of(points, "polygon has", "polygons have"), points == 1 ? "is" : "are", first));
  const bool have_mask_areas = !file.entries.empty() && !file.entries[0].has_box;
  for (size_t i = 0; i < file.entries.size(); ++i) {
    Detection& d = file.detections[i];
    if (d.mask == nullptr) continue;
    d.has_mask_area = have_mask_areas;
    const Box& box = d.mask->box();
    if (!file.entries[i].has_box) d.bbox = {box.x1, box.y1, box.x2 - box.x1, box.y2 - box.y1};
  }
}

// Notes numbers that no detection has. The metrics stay pycocotools', which only compares them.
void note_odd_numbers(const std::string& path, const ResultFile& file, std::vector<std::string>* notes) {
  int64_t negative = 0, beyond = 0;
  size_t first_negative = 0, first_beyond = 0;
  for (size_t i = 0; i < file.entries.size(); ++i) {
    const Detection& d = file.detections[i];
    if (file.entries[i].has_box && (d.bbox[2] < 0 || d.bbox[3] < 0) && negative++ == 0) first_negative = i;
    if ((d.score < 0 || d.score > 1) && beyond++ == 0) first_beyond = i;
  }
  const auto all = std::ssize(file.entries);
  if (negative > 0)
    note(notes, negative,
         fmt::format("{}: {} a negative width or height, for example entry {}", path,
                     count_among(negative, all, "entries", "has a box with", "have boxes with"),
                     first_negative + 1));
  if (beyond > 0)
    note(notes, beyond,
         fmt::format("{}: {}, for example {:g} in entry {}; metrics only compare scores", path,
                     count_among(beyond, all, "entries", "has a score that is not between 0 and 1",
                                 "have scores that are not between 0 and 1"),
                     file.detections[first_beyond].score, first_beyond + 1));
}

}  // namespace

std::vector<Detection> read_detections(const std::string& path, const GroundTruth* truth,
                                       std::vector<std::string>* notes, bool masks,
                                       const ClassChoice& choice) {
  std::optional<ResultFile> read(std::in_place, path, masks);
  if (!masks && read->lacks_boxes()) read.emplace(path, true);
  ResultFile& file = *read;
  note(notes, file.entries.empty() ? 1 : 0, fmt::format("{}: has no detections", path));
  note_odd_numbers(path, file, notes);
  const auto is_named = [](const Listed& e) { return e.file_name != kNoName || e.word != kNoName; };
  if (truth != nullptr) {
    if (truth->ids_are_places || std::ranges::any_of(file.entries, is_named)) {
      ImageNames names(*truth);
      take_numbers_of_files(path, file, names, notes);
      find_images(path, file, names, notes);
    }
  } else {
    for (size_t i = 0; i < file.entries.size(); ++i)
      if (!file.entries[i].has_id)
        fail_input("{}: entry {}: field \"image_id\" {}", path, i + 1,
                   file.entries[i].word == kNoName ? "is missing" : "must be an integer");
    for (size_t i = 0; i < file.entries.size(); ++i)
      if (!file.entries[i].has_category) fail_input("{}: entry {}: {}", path, i + 1, kNoCategoryId);
  }
  if (masks || file.lacks_boxes()) find_masks(path, file, truth, notes);
  if (truth != nullptr) {
    find_categories(path, file, *truth, choice, notes);
    take_mapped_ids(path, file, *truth, notes);
  }
  return std::move(file.detections);
}

void write_detections(const std::string& path, std::span<const Detection> detections,
                      const GroundTruth* truth) {
  // As written in the file.
  std::unordered_map<int64_t, std::string> images, categories;
  if (truth != nullptr) {
    for (const ImageInfo& i : truth->images)
      images.emplace(
          i.id, fmt::format("{},\"file_name\":{}", i.word.empty() ? std::to_string(i.id) : json_quote(i.word),
                            json_quote(i.file_name)));
    for (const Category& c : truth->categories)
      categories.emplace(c.id, fmt::format("{},\"category\":{}", c.id, json_quote(c.name)));
  }
  fmt::memory_buffer text;
  auto out = std::back_inserter(text);
  auto add_named = [&](const std::unordered_map<int64_t, std::string>& names, int64_t id) {
    const auto it = names.find(id);
    if (it != names.end())
      text.append(std::string_view(it->second));
    else
      fmt::format_to(out, "{}", id);
  };
  text.push_back('[');
  for (size_t i = 0; i < detections.size(); ++i) {
    const Detection& d = detections[i];
    SACCADE_CHECK(std::isfinite(d.score) && std::isfinite(d.bbox[0] + d.bbox[1] + d.bbox[2] + d.bbox[3]),
                  "[detections] entry {} of image {} is not finite", i, d.image_id);
    text.append(std::string_view(i == 0 ? "{\"image_id\":" : ",\n{\"image_id\":"));
    add_named(images, d.image_id);
    text.append(std::string_view(",\"category_id\":"));
    add_named(categories, d.category_id);
    fmt::format_to(out, ",\"bbox\":[{},{},{},{}],\"score\":{}", d.bbox[0], d.bbox[1], d.bbox[2], d.bbox[3],
                   d.score);
    if (d.mask != nullptr)
      fmt::format_to(out, ",\"segmentation\":{}", segmentation_json({.polygons = {}, .runs = *d.mask}));
    text.push_back('}');
  }
  text.push_back(']');
  text.push_back('\n');
  write_file(path, std::string_view(text.data(), text.size()));
}

std::vector<std::string> keep_classes(const std::vector<std::string>& names, GroundTruth& truth,
                                      std::vector<Detection>& detections) {
  if (names.empty()) return {};
  const size_t notes = truth.notes.size();
  choose_classes(truth, {.only = names});
  std::vector<std::string> lines(truth.notes.begin() + static_cast<std::ptrdiff_t>(notes), truth.notes.end());
  truth.notes.resize(notes);
  std::unordered_set<int64_t> ids;
  for (const Category& c : truth.categories) ids.insert(c.id);
  const size_t all = detections.size();
  if (const size_t left =
          std::erase_if(detections, [&](const Detection& d) { return !ids.contains(d.category_id); });
      left > 0)
    lines.push_back(count_among(static_cast<int64_t>(left), static_cast<int64_t>(all), "detections",
                                "is of another class and is left out",
                                "are of other classes and are left out"));
  return lines;
}

}  // namespace saccade
