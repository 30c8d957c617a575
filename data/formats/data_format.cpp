#include "data/formats/data_format.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/files/text.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/checks/dataset_fix.h"
#include "data/formats/checks/image_check.h"
#include "data/formats/checks/mask_check.h"
#include "data/formats/checks/units.h"
#include "data/formats/checks/unused_data.h"
#include "data/formats/dataset.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/joining/united_truth.h"
#include "data/formats/label_maps/label_values.h"
#include "data/formats/splits.h"

namespace saccade {
namespace {

// The members and their names.
constexpr std::pair<bool Contents::*, const char*> kContents[] = {{&Contents::boxes, "boxes"},
                                                                  {&Contents::masks, "masks"},
                                                                  {&Contents::image_classes, "image classes"},
                                                                  {&Contents::label_maps, "label maps"}};

const DataFormat& recognised_format(const DataPaths& paths) {
  if (!paths.format.empty()) return data_formats().find(paths.format);
  const DataFormat *found = nullptr, *otherwise = nullptr;
  for (const auto& [name, format] : data_formats().all()) {
    if (format.offers().common(paths.wants).is_empty()) continue;
    if (format.recognises == nullptr) otherwise = &format;
    if (format.recognises == nullptr || !format.recognises(paths)) continue;
    if (found != nullptr)
      fail_input("{}: may be in the format {} or {}; set the field \"format\" next to it", paths.name(),
                 found->name, name);
    found = &format;
  }
  if (found == nullptr) found = otherwise;
  if (found == nullptr) fail_input("{}: no data format has {}", paths.name(), paths.wants.text());
  return *found;
}

const DataFormat& format_of(const DataPaths& paths) {
  return find_format(recognised_format(paths).name, paths.wants, paths.name());
}

void fail_at_the_first(const std::string& problem) { fail_input("{}", problem); }

GroundTruth read_whole(const DataFormat& format, const DataPaths& all, const ProblemReport& report) {
  DataPaths paths = all;
  const bool draws = paths.wants.label_maps && !format.provides.label_maps;
  paths.wants.masks = paths.wants.masks || draws;
  GroundTruth truth = format.read(paths, report);
  truth.ids_are_places = !format.has_category_ids;
  if (paths.wants.masks) check_masks(truth, paths.annotations, report);
  if (draws) draw_labels(truth, paths, report);
  check_file_names(truth, paths.annotations, report);
  note_unnamed_images(truth, paths, format.read);
  take_known_categories(truth, paths.categories);
  return truth;
}

// The notes on the whole set are those of the training part.
GroundTruth part_with_notes(GroundTruth truth, const DataPaths& paths) {
  if (paths.part == Part::kValidation) truth.notes.clear();
  if (paths.part == Part::kValidation && paths.wants.image_classes) truth.told.clear();
  return part_of(std::move(truth), paths);
}

// Returns whether it is one set with all of its classes.
bool is_plain(const DataPaths& paths) { return paths.sets.empty() && paths.choice.takes_all(); }

// Reads several sets, or some classes.
GroundTruth read_joined(const DataPaths& paths, const ProblemReport& report) {
  std::vector<SetPart> parts;
  std::vector<std::string> names;
  const std::vector<DataPaths> sets = sets_of(paths);
  for (const DataPaths& one : sets) {
    DataPaths set = plain_set(one, paths);
    const DataFormat& format = format_of(set);
    // Values in label maps are those before the choice.
    if (paths.sets.empty() && format.has_category_ids && !format.provides.label_maps)
      set.categories = paths.categories;
    parts.push_back({.truth = read_whole(format, set, report),
                     .name = set.annotations,
                     .images = set.images,
                     .has_ids = format.has_category_ids,
                     .allow_outside = set.allow_outside});
    for (const Category& c : parts.back().truth.categories) names.push_back(c.name);
  }
  // If the classes of another set or of a model are already known, that one may have had the other names.
  if (paths.categories.empty()) check_choice(paths.choice, names, paths.annotations);
  for (size_t i = 0; i < parts.size(); ++i) {
    choose_classes(parts[i].truth, paths.choice);
    parts[i].truth = part_with_notes(std::move(parts[i].truth), plain_set(sets[i], paths));
  }
  GroundTruth truth;
  if (paths.sets.empty() && parts[0].has_ids) {
    truth = std::move(parts[0].truth);
    take_known_categories(truth, paths.categories);
  } else {
    truth = unite(std::move(parts),
                  {.images = paths.images, .known = paths.categories, .order = paths.choice.only}, report);
  }
  return part_of(std::move(truth), {.annotations = paths.annotations, .images = "", .most = paths.most});
}

// Names that are not UTF-8 would change, or coincide, when written into a list or a checkpoint; those with a
// zero byte would end there for others.
void check_names(const std::vector<std::string>& names, const std::string& data) {
  for (const std::string& name : names) {
    if (!is_utf8(name))
      fail_input("{}: the class \"{}\" is not UTF-8 text, expected UTF-8 in the file that names it", data,
                 printable(name));
    if (name.find('\0') != std::string::npos)
      fail_input("{}: the class \"{}\" contains a zero byte, expected text", data, printable(name));
  }
}

// Reads any set.
GroundTruth read_any(const DataPaths& paths, const ProblemReport& report) {
  auto read = [&](const DataPaths& set) {
    return part_with_notes(read_whole(format_of(set), set, report), set);
  };
  GroundTruth truth = is_plain(paths)             ? read(paths)
                      : paths.wants.image_classes ? join_folders(paths, read)
                                                  : read_joined(paths, report);
  std::vector<std::string> names;
  for (const Category& c : truth.categories) names.push_back(c.name);
  check_names(names, paths.name());
  return truth;
}

// Returns the sizes of the images if they are inspected.
std::vector<ImageSize> look_at_images(const Dataset& images, const DataPaths& paths,
                                      std::vector<std::string>* notes) {
  if (paths.images.empty() || !paths.look_at_images) return {};
  ImageCheck seen = check_image_files(images, paths);
  if (notes != nullptr) notes->insert(notes->end(), seen.notes.begin(), seen.notes.end());
  return std::move(seen.sizes);
}

// Masks are compared pixel by pixel, at the size of the image. The list may have no size, or another one.
std::shared_ptr<const Dataset> with_seen_sizes(std::shared_ptr<const Dataset> set, const DataPaths& paths,
                                               LabelScheme labels, const std::vector<ImageSize>& sizes) {
  const GroundTruth& said = set->ground_truth();
  if (std::ranges::none_of(said.annotations, [](const Annotation& a) { return a.segmentation != nullptr; }))
    return set;
  GroundTruth truth;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == ImageSize() || sizes[i] == set->size_of(static_cast<int64_t>(i))) continue;
    if (truth.images.empty()) truth = said;
    truth.images[i].width = sizes[i].width;
    truth.images[i].height = sizes[i].height;
  }
  if (truth.images.empty()) return set;
  return std::make_shared<Dataset>(set->name(), paths.images, std::move(truth), labels);
}

}  // namespace

Contents Contents::common(const Contents& other) const {
  Contents both;
  for (const auto& [member, name] : kContents) both.*member = this->*member && other.*member;
  return both;
}

std::string Contents::text() const {
  std::vector<const char*> names;
  for (const auto& [member, name] : kContents)
    if (this->*member) names.push_back(name);
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, " and "));
}

std::vector<std::string> formats_with(const Contents& wanted) {
  std::vector<std::string> names;
  for (const auto& [name, format] : data_formats().all())
    if (format.offers().has(wanted)) names.push_back(name);
  return names;
}

Contents DataFormat::offers() const {
  Contents all = provides;
  all.label_maps = all.label_maps || all.masks;
  return all;
}

const DataFormat& find_format(const std::string& name, const Contents& wanted, const std::string& what) {
  if (!data_formats().all().contains(name))
    fail_input("{}: data format \"{}\" is not known, expected one of {}", what, shortened(name),
               fmt::join(formats_with(wanted), ", "));
  const DataFormat& format = data_formats().find(name);
  if (!format.offers().has(wanted))
    fail_input("{}: data format {} has {}, the task needs {}; formats that have them: {}", what, name,
               format.provides.text(), wanted.text(), fmt::join(formats_with(wanted), ", "));
  return format;
}

DataPaths with_masks(DataPaths paths) {
  for (DataPaths& set : paths.sets) set = with_masks(std::move(set));
  paths.wants.masks = false;
  if (!paths.sets.empty()) return paths;
  const DataFormat& format = recognised_format(paths);
  paths.format = format.name;
  paths.wants.masks = format.provides.masks;
  return paths;
}

std::string named_note(const std::string& note, const DataPaths& paths) {
  const bool is_named = std::ranges::any_of(
      paths.sets, [&](const DataPaths& set) { return note.starts_with(set.annotations + ": "); });
  return is_named ? note : fmt::format("{}: {}", paths.name(), note);
}

std::shared_ptr<const Dataset> open_dataset(const DataPaths& paths, LabelScheme labels,
                                            std::vector<std::string>* notes) {
  const auto dataset =
      std::make_shared<Dataset>(paths.name(), paths.images, read_any(paths, fail_at_the_first), labels);
  const GroundTruth& truth = dataset->ground_truth();
  if (notes != nullptr)
    for (const std::string& line : truth.told)
      if (std::ranges::find(*notes, line) == notes->end())  // two splits of one folder
        notes->push_back(line);
  const std::vector<ImageSize> sizes = look_at_images(*dataset, paths, notes);
  if (notes != nullptr) {
    const auto add = [&](const char* kind, const std::string& note) {
      std::string line = kind + named_note(note, paths);
      if (std::ranges::find(*notes, line) == notes->end())  // two splits of one file
        notes->push_back(std::move(line));
    };
    if (const std::string parts = boxes_that_are_parts(truth); !parts.empty()) add("warning: ", parts);
    for (const std::string& note : notes_on_boxes(truth, sizes)) add("note: ", note);
  }
  return with_seen_sizes(dataset, paths, labels, sizes);
}

namespace {

DatasetReport check_any(const DataPaths& paths, GroundTruth* left, int threads, GroundTruth* all,
                        std::vector<ClassPixels>* pixels) {
  DatasetReport report;
  try {
    const ProblemReport add = [&](const std::string& problem) { report.problems.add(problem); };
    GroundTruth truth = read_any(paths.wants.image_classes ? paths : with_masks(paths), add);
    int64_t unread = 0;
    if (left != nullptr)  // except for records that were read anyway
      unread = report.problems.count() - truth.faulty_masks - truth.left_out.count() -
               std::ssize(images_with_anothers_file(truth.images));
    if (paths.wants.image_classes)
      check_class_images(truth, paths, threads, report);
    else if (std::ranges::any_of(truth.images, [](const ImageInfo& i) { return i.label_values != nullptr; }))
      check_label_images(truth, paths, threads, report, pixels);
    else
      check_ground_truth(truth, paths, threads, report, left);
    if (left != nullptr && unread > 0)
      report.left_out.push_back(
          count_of(unread, "of the problems above is in a record that was not read: it is left out, and its",
                   "of the problems above are in records that were not read: they are left out, and their") +
          " objects become background in the images that stay");
    for (const std::string& note : truth.notes)
      if (std::ranges::find(report.remarks, note) == report.remarks.end()) report.remarks.push_back(note);
    if (all != nullptr) *all = std::move(truth);
  } catch (const InputError& e) {
    report.problems.add(e.what());
  }
  return report;
}

}  // namespace

DatasetReport check_dataset(const DataPaths& paths, GroundTruth* left, int threads, GroundTruth* all) {
  return check_any(paths, left, threads, all, nullptr);
}

DatasetReport check_label_maps(const DataPaths& paths, GroundTruth& truth, std::vector<ClassPixels>& pixels) {
  return check_any(paths, nullptr, 0, &truth, &pixels);
}

GroundTruth read_ground_truth(const DataPaths& paths) {
  GroundTruth truth = read_any(paths, fail_at_the_first);
  check_ids(truth, paths.annotations, fail_at_the_first);
  return truth;
}

}  // namespace saccade
