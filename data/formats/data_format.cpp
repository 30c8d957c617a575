#include "data/formats/data_format.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/files/text.h"
#include "data/formats/annotated_images.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/checks/dataset_fix.h"
#include "data/formats/checks/image_check.h"
#include "data/formats/checks/mask_check.h"
#include "data/formats/checks/units.h"
#include "data/formats/checks/unnamed_images.h"
#include "data/formats/joining/joined_folders.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/joining/united_truth.h"
#include "data/formats/splits.h"

namespace saccade {
namespace {

template <class Format>
const Format& format_of(const Registry<Format>& formats, const DataPaths& paths, const char* otherwise) {
  if (!paths.format.empty()) return formats.find(paths.format);
  const Format* found = nullptr;
  for (const auto& [name, format] : formats.all()) {
    if (format.recognises == nullptr || !format.recognises(paths)) continue;
    if (found != nullptr)
      fail_input("{}: may be of the format {} or {}; the field \"format\" beside it says which",
                 paths.annotations.empty() ? paths.images : paths.annotations, found->name, name);
    found = &format;
  }
  return found != nullptr ? *found : formats.find(otherwise);
}

const DetectionFormat& recognised_format(const DataPaths& paths) {
  return format_of(detection_formats(), paths, "coco");
}

const DetectionFormat& detection_format(const DataPaths& paths) {
  const DetectionFormat& found = recognised_format(paths);
  if (!paths.masks || found.provides.masks) return found;
  std::vector<std::string> others;
  for (const auto& [name, format] : detection_formats().all())
    if (format.provides.masks) others.push_back(name);
  fail_input("{}: data format {} has no masks, the task needs them; formats with masks: {}",
             paths.annotations, found.name, fmt::join(others, ", "));
}

void fail_at_the_first(const std::string& problem) { fail_input("{}", problem); }

GroundTruth read_whole(const DetectionFormat& format, const DataPaths& paths, const ProblemReport& report) {
  GroundTruth truth = format.read(paths, report);
  if (paths.masks) check_masks(truth, paths.annotations, report);
  check_file_names(truth, paths.annotations, report);
  note_unnamed_images(truth, paths, format.read);
  take_known_categories(truth, paths.categories);
  return truth;
}

// The notes on the whole are those of the training part.
GroundTruth part_with_notes(GroundTruth truth, const DataPaths& paths) {
  if (paths.part == Part::kValidation) truth.notes.clear();
  return part_of(std::move(truth), paths);
}

// One set with all of its classes.
bool is_plain(const DataPaths& paths) { return paths.sets.empty() && paths.choice.takes_all(); }

// A set among those of `all`, as its format reads it.
DataPaths plain_set(DataPaths set, const DataPaths& all) {
  set.sets.clear();
  set.choice = {};
  set.most = 0;
  set.allow_outside = all.allow_outside;
  set.may_lack_annotations = all.may_lack_annotations;
  set.masks = set.masks || all.masks;
  set.categories = {};
  return set;
}

// Of several sets, or of some classes.
GroundTruth read_joined(const DataPaths& paths, const ProblemReport& report) {
  std::vector<SetPart> parts;
  std::vector<std::string> names;
  const std::vector<DataPaths> sets = sets_of(paths);
  for (const DataPaths& one : sets) {
    DataPaths set = plain_set(one, paths);
    const DetectionFormat& format = detection_format(set);
    if (paths.sets.empty() && format.has_category_ids) set.categories = paths.categories;
    parts.push_back({.truth = read_whole(format, set, report),
                     .name = set.annotations,
                     .images = set.images,
                     .has_ids = format.has_category_ids,
                     .allow_outside = set.allow_outside});
    for (const Category& c : parts.back().truth.categories) names.push_back(c.name);
  }
  // Another set that is known by then, as that of a model, may have had the other names.
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

// Names that cannot be written into a list or a checkpoint would become others, or one.
void check_names(const std::vector<std::string>& names, const std::string& data) {
  for (const std::string& name : names)
    if (!is_utf8(name))
      fail_input("{}: the class \"{}\" is no UTF-8 text, expected the file that names it in this encoding",
                 data, printable(name));
}

GroundTruth read_any(const DataPaths& paths, const ProblemReport& report) {
  GroundTruth truth = is_plain(paths)
                          ? part_with_notes(read_whole(detection_format(paths), paths, report), paths)
                          : read_joined(paths, report);
  std::vector<std::string> names;
  for (const Category& c : truth.categories) names.push_back(c.name);
  check_names(names, paths.annotations);
  return truth;
}

void look_at_images(const ImageSource& images, const DataPaths& paths, std::vector<std::string>* notes) {
  if (paths.images.empty() || !paths.look_at_images) return;
  for (const std::string& note : check_image_files(images, paths))
    if (notes != nullptr) notes->push_back(note);
}

}  // namespace

DataPaths with_masks(DataPaths paths) {
  for (DataPaths& set : paths.sets) set = with_masks(std::move(set));
  if (!paths.sets.empty()) return paths;
  const DetectionFormat& format = recognised_format(paths);
  paths.format = format.name;
  paths.masks = paths.masks || format.provides.masks;
  return paths;
}

std::string named_note(const std::string& note, const DataPaths& paths) {
  const bool is_named = std::ranges::any_of(
      paths.sets, [&](const DataPaths& set) { return note.starts_with(set.annotations + ": "); });
  return is_named ? note : fmt::format("{}: {}", paths.annotations, note);
}

std::shared_ptr<const DetectionDataset> open_detection_dataset(const DataPaths& paths, LabelScheme labels,
                                                               std::vector<std::string>* notes) {
  const auto dataset = std::make_shared<AnnotatedImages>(paths.annotations, paths.images,
                                                         read_any(paths, fail_at_the_first), labels);
  look_at_images(*dataset, paths, notes);
  if (notes != nullptr)
    for (const std::string& note : notes_on_boxes(dataset->ground_truth()))
      if (std::string line = "note: " + named_note(note, paths);
          std::ranges::find(*notes, line) == notes->end())  // of two splits of one file
        notes->push_back(std::move(line));
  return dataset;
}

std::shared_ptr<const ClassificationDataset> open_classification_dataset(
    const DataPaths& paths, const std::vector<std::string>& classes, std::vector<std::string>* notes) {
  auto open = [](const DataPaths& set, const std::vector<std::string>& known) {
    return format_of(classification_formats(), set, "folder").open(set, known);
  };
  const auto dataset = is_plain(paths) ? open(paths, classes) : join_folders(paths, classes, open);
  check_names(dataset->class_names(), dataset->name());
  look_at_images(*dataset, paths, notes);
  return dataset;
}

DatasetReport check_detection_dataset(const DataPaths& paths, GroundTruth* left, int threads,
                                      GroundTruth* all) {
  DatasetReport report;
  try {
    const ProblemReport add = [&](const std::string& problem) { report.problems.add(problem); };
    GroundTruth truth = read_any(with_masks(paths), add);
    const int64_t unread = report.problems.count() - truth.faulty_masks;
    check_ground_truth(truth, paths, threads, report, left);
    if (left != nullptr && unread > 0)
      report.left_out.push_back(fmt::format(
          "{} of the problems above are of records that were not read: they are not in it, and objects "
          "of images that stay are background",
          unread));
    for (const std::string& note : truth.notes)
      if (std::ranges::find(report.remarks, note) == report.remarks.end()) report.remarks.push_back(note);
    if (all != nullptr) *all = std::move(truth);
  } catch (const InputError& e) {
    report.problems.add(e.what());
  }
  return report;
}

DatasetReport check_classification_dataset(const DataPaths& paths, std::vector<std::string>& classes,
                                           int threads) {
  DatasetReport report;
  try {
    DataPaths unseen = paths;
    unseen.look_at_images = false;
    const auto dataset = open_classification_dataset(unseen, classes);
    if (classes.empty()) classes = dataset->class_names();
    check_class_images(*dataset, paths, threads, report);
  } catch (const InputError& e) {
    report.problems.add(e.what());
  }
  return report;
}

GroundTruth read_ground_truth(const DataPaths& paths) {
  GroundTruth truth = read_any(paths, fail_at_the_first);
  check_ids(truth, paths.annotations, fail_at_the_first);
  return truth;
}

}  // namespace saccade
