#include "train/commands/data/sources.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/listing.h"
#include "data/formats/splits.h"
#include "train/config/options.h"
#include "train/config/schema/rules.h"
#include "train/logs/print.h"

namespace saccade {

void set_classes(Config& config, const std::vector<std::string>& set) {
  for (const std::string& assignment : set) {
    if (!assignment.starts_with("data.class_map.") && !assignment.starts_with("data.classes=") &&
        !assignment.starts_with("data.label_maps."))
      fail_input(
          "--set {}: expected data.class_map.NAME=AS, data.classes=[NAME, ...] or data.label_maps.FIELD=VALUE",
          shortened(assignment));
    apply_set(config, assignment);
  }
}

ClassChoice chosen_classes(const std::vector<std::string>& classes, const std::vector<std::string>& set) {
  Config config;
  set_classes(config, set);
  ClassChoice choice = class_choice(config);
  if (!classes.empty()) choice.only = classes;
  return choice;
}

LabelMapOptions set_label_maps(const std::vector<std::string>& set) {
  Config config;
  set_classes(config, set);
  check_rules(config.data().label_maps(), "data.label_maps");
  return label_map_options(config);
}

std::string name_of(const SourceFlags& flags) {
  return flags.data.empty() ? flags.annotations : fmt::format("{}", fmt::join(flags.data, " + "));
}

std::vector<DataSource> splits_of(const std::vector<std::string>& folders, const std::string& format,
                                  const std::string& output) {
  std::vector<DataSource> sources;
  const DataSplits splits = find_united(folders, {.format = format});
  for (const std::string& note : splits.notes) print_line("note: {}", note);
  if (!splits.train)
    print_line("note: {} has no training images, so train refuses it", fmt::join(folders, " + "));
  for (const auto& [name, paths] : named_splits(splits))
    sources.push_back({paths, output.empty() ? "" : joined(output, name + ".json"), name});
  return sources;
}

std::vector<DataSource> sources_of(const SourceFlags& flags, const std::string& output) {
  std::vector<DataSource> sources;
  if (flags.data.empty()) {
    for (auto [flag, value] :
         {std::pair{"--annotations", &flags.annotations}, std::pair{"--images", &flags.images}})
      if (value->empty()) fail_input("{}: not given, expected --annotations and --images, or --data", flag);
    sources.push_back({{.annotations = flags.annotations, .images = flags.images}, output});
  } else {
    if (!flags.annotations.empty() || !flags.images.empty())
      fail_input("--data and {} cannot be combined",
                 flags.annotations.empty() ? "--images" : "--annotations");
    sources = splits_of(flags.data, "", output);
  }
  for (DataSource& source : sources) {
    source.paths.allow_outside = flags.allow_outside;
    source.paths.choice = flags.choice;
  }
  return sources;
}

namespace {

// Whether the folder has subfolders that, by their names, hold more than images and lists of boxes.
bool may_hold_classes(const std::string& folder) {
  bool has_images = false, has_lists = false, has_others = false;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".") || !is_folder(entry.path().string())) continue;
    if (name == "images")
      has_images = true;
    else if (name == "labels" || name == "annotations")
      has_lists = true;
    else
      has_others = true;
  }
  return has_others && !(has_images && has_lists);
}

// A file next to the folders that may be a list of boxes in an unknown form, or labels of boxes next to them
// or in them; empty if there is none. Lists of classes do not count. Looks only at the first of many folders
// and files.
std::string possible_list(const std::string& folder) {
  for (const char* ending : {".json", ".xml", ".data", ".yaml", ".yml"})
    for (const std::string& name : list_files(folder, ending))
      if (name.find("class") == std::string::npos) return joined(folder, name);
  constexpr size_t kMost = 20;
  std::vector<std::string> places{folder};
  for (const std::string& name : folders_in(folder)) places.push_back(joined(folder, name));
  places.resize(std::min(places.size(), kMost));
  for (const auto& [name, format] : data_formats().all())
    for (const char* ending : format.label_endings)
      for (const std::string& place : places) {
        std::vector<std::string> files = list_files(place, ending);
        files.resize(std::min(files.size(), kMost));
        for (const std::string& file : files)
          if (format.holds_labels(joined(place, file))) return joined(place, file);
      }
  return "";
}

// Folders named like images and label maps are not classes, whatever they hold.
void refuse_label_maps(const std::string& folder) {
  const auto has_one_of = [](const std::string& name, std::initializer_list<const char*> words) {
    return std::ranges::any_of(words, [&](const char* w) { return lower_case(name).find(w) != name.npos; });
  };
  std::string images, maps;
  for (const std::string& name : folders_in(folder)) {
    if (has_one_of(name, {"mask", "label", "annotation", "ann_", "seg", "gt"}))
      maps = name;
    else if (has_one_of(name, {"image", "img"}))
      images = name;
    else
      return;
  }
  if (!images.empty() && !maps.empty())
    fail_input(
        "{}: {} and {} may be images and label maps, but not in a known layout ({}), so they are not read as classes",
        folder, images, maps, data_formats().find("label_maps").layout);
}

// Whether the place holds class folders, and no known lists.
bool holds_classes(const std::string& place) {
  if (!is_folder(place) || !look_for_splits(place).format.empty()) return false;
  const DataSplits found = look_for_splits(place, "", {.image_classes = true});
  for (const auto& [name, paths] : named_splits(found))
    if (may_hold_classes(paths.images)) {
      if (!sets_below(paths.images).empty()) return false;  // a folder of data sets is not a class
      refuse_label_maps(paths.images);
      for (const std::string& folder : {place, paths.images})
        if (const std::string list = possible_list(folder); !list.empty())
          fail_input(
              "{}: may be a list of boxes, but not in a known layout, so the folders next to it are not read as classes{}",
              list,
              list.ends_with(".txt")
                  ? ""
                  : fmt::format("; data convert {} OUT --images DIR reads it, if it is one", list));
      return true;
    }
  return false;
}

// Whether the place holds label maps, and no known lists of boxes.
bool holds_label_maps(const std::string& place) {
  return is_folder(place) && look_for_splits(place).format.empty() &&
         !look_for_splits(place, "", {.label_maps = true}).format.empty();
}

}  // namespace

DataSplits with_flags(DataSplits found, const SourceFlags& flags) {
  for (const std::string& note : found.notes) print_line("note: {}", note);
  for (const SplitNames& names : split_names())
    if (auto& paths = found.*names.split) {
      paths->allow_outside = flags.allow_outside;
      paths->choice = flags.choice;
      paths->label_maps = flags.label_maps;
    }
  return found;
}

std::optional<DataSplits> label_map_sets(const SourceFlags& flags) {
  DataSplits found;
  if (!flags.annotations.empty()) {
    const DataPaths paths{
        .annotations = flags.annotations, .images = flags.images, .wants = {.label_maps = true}};
    if (!flags.data.empty() || !data_formats().find("label_maps").recognises(paths) ||
        has_files_below(flags.annotations, ".xml") || has_files_below(flags.annotations, ".json"))
      return std::nullopt;
    found.train = paths;
  } else {
    if (flags.data.empty() || !std::ranges::all_of(flags.data, holds_label_maps)) return std::nullopt;
    found = find_united(flags.data, {.wants = {.label_maps = true}});
  }
  return with_flags(std::move(found), flags);
}

std::optional<DataSplits> class_folders(const SourceFlags& flags) {
  if (!flags.annotations.empty() || !flags.images.empty() || flags.data.empty() ||
      !std::ranges::all_of(flags.data, holds_classes))
    return std::nullopt;
  return with_flags(find_united(flags.data, {.wants = {.image_classes = true}}), flags);
}

}  // namespace saccade
