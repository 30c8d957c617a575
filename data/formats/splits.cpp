#include "data/formats/splits.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/label_maps/pairs.h"
#include "data/formats/named_classes.h"

namespace saccade {
namespace {

// Appends the same names with a capital, and in capitals.
std::vector<std::string> with_capitals(std::vector<std::string> names) {
  const size_t count = names.size();
  for (size_t i = 0; i < count; ++i) {
    std::string first = names[i], all = names[i];
    first[0] = static_cast<char>(first[0] - 'a' + 'A');
    for (char& c : all) c = static_cast<char>(c - 'a' + 'A');
    names.push_back(first);
    names.push_back(all);
  }
  return names;
}

bool is_asked_for(const DataFormat& format, const std::string& name, const Contents& wanted) {
  return format.find != nullptr && !format.offers().common(wanted).is_empty() &&
         (name.empty() || format.name == name);
}

DataSplits splits_in(const DataFormat& format, const std::string& place) {
  if (is_folder(place)) return format.find(place);
  return format.find_in_file != nullptr ? format.find_in_file(place) : DataSplits{};
}

// Folders of images next to a list of boxes are no classes, nor are those of images and label maps.
void refuse_other_content(const std::string& folder, const Contents& wanted) {
  if (!wanted.image_classes || !is_folder(folder)) return;
  std::vector<std::string> places{folder};
  for (const SplitNames& split : split_names())
    for (const std::string& name : split.names) places.push_back(joined(folder, name));
  static const std::vector<const char*> kListEndings{".json", ".yaml", ".yml", ".xml", ".csv"};
  const bool has_lists = std::ranges::any_of(places, [](const std::string& place) {
    return std::ranges::any_of(kListEndings, [&](auto ending) { return !list_files(place, ending).empty(); });
  });
  for (const auto& [name, format] : data_formats().all()) {
    if (format.find == nullptr || !format.offers().common(wanted).is_empty()) continue;
    if (!has_lists && !format.provides.label_maps) continue;
    const DataSplits other = format.find(folder);
    const auto& split = other.first();
    // A picture named like a label map of the one next to it may still belong to a class.
    if (split && (!format.provides.label_maps || split->annotations != split->images))
      fail_input("{}: is a data set in the format {}, which has {}; the task needs {}", folder, name,
                 format.provides.text(), wanted.text());
  }
}

constexpr auto kSplits = {&DataSplits::train, &DataSplits::val, &DataSplits::test};

// Returns the first of these folders of `root` and their subfolders with one of the split's names, or "".
std::string folder_of_split(const std::string& root, const std::vector<std::string>& folders,
                            const SplitNames& split) {
  for (const std::string& name : folders)
    if (split.has(name)) return joined(root, name);
  for (const std::string& name : folders)
    for (const std::string& inner : folders_in(joined(root, name)))
      if (split.has(inner)) return joined(joined(root, name), inner);
  return "";
}

// Adds a note if a layout has only one set, in which folders of several splits are joined.
void note_joined_splits(DataSplits& found) {
  if (!found.train || found.val || found.test || !found.train->sets.empty()) return;
  for (const std::string& root : {found.train->annotations, found.train->images}) {
    if (!is_folder(root)) continue;
    const std::vector<std::string> folders = folders_in(root);
    std::vector<std::string> parts;
    for (const SplitNames& split : split_names())
      if (std::string own = folder_of_split(root, folders, split); !own.empty())
        parts.push_back(std::move(own));
    if (parts.size() < 2) continue;
    found.notes.push_back(
        fmt::format("{} are read as one set, as {} has no splits in this layout; give the paths of each "
                    "split in data.train and data.val",
                    fmt::join(parts, " and "), found.format));
    return;
  }
}

bool holds_set(const std::string& folder, const std::string& named, const Contents& wanted) {
  try {
    return !look_for_splits(folder, named, wanted).format.empty();
  } catch (const InputError&) {  // the code that opens it reports it
    return true;
  }
}

// Any folder may contain class folders: checks that it has several folders, all with images, whose names are
// not those of images and labels.
bool are_classes(const std::string& folder) {
  const std::vector<std::string> folders = folders_in(folder);
  return folders.size() > 1 && std::ranges::all_of(folders, [&](const std::string& name) {
           const auto has = [&](const char* word) { return lower_case(name).find(word) != name.npos; };
           return !has("image") && !has("img") && !has("mask") && !has("label") && !has("annotation") &&
                  holds_image(joined(folder, name));
         });
}

// Refuses a folder that can be read for another task, but not for the wanted one.
void refuse_set_of_another_task(const std::string& folder, const std::string& named, const Contents& wanted) {
  const std::pair<Contents, const char*> tasks[] = {
      {{.boxes = true}, "detectors learn"},
      {{.label_maps = true}, "models of label maps (semantic segmentation) learn"},
      {{.image_classes = true}, "classifiers learn"}};
  for (const auto& [contents, who] : tasks)
    for (const auto& [name, format] : data_formats().all()) {
      if (format.find == nullptr || format.offers().common(contents).is_empty() ||
          !format.offers().common(wanted).is_empty() || (!named.empty() && named != name))
        continue;
      const DataSplits found = splits_in(format, folder);
      const auto& split = found.first();
      if (!split || (contents.image_classes && !are_classes(split->images))) continue;
      fail_input("{}: holds {} ({}: {}), which {}; expected {}", folder, format.provides.text(), name,
                 split->name(), who, wanted.text());
    }
}

// Counts the objects of each class.
std::map<std::string, int64_t> objects_of(const GroundTruth& truth) {
  std::map<int64_t, int64_t> counts;
  for (const Annotation& a : truth.annotations) counts[a.category_id] += !a.iscrowd;
  std::map<std::string, int64_t> objects;
  for (const Category& c : truth.categories)
    if (const auto it = counts.find(c.id); it != counts.end() && it->second > 0)
      objects[c.name] += it->second;
  return objects;
}

// Returns "a" 7, "b" 3: the first ten of those that `other` lacks, and their number.
std::pair<std::string, size_t> lacking(const std::map<std::string, int64_t>& objects,
                                       const std::map<std::string, int64_t>& other) {
  std::vector<std::string> names;
  for (const auto& [name, n] : objects)
    if (!other.contains(name)) names.push_back(fmt::format("\"{}\" {}", printable(name), n));
  return {some_of(names, 10), names.size()};
}

}  // namespace

const std::vector<SplitNames>& split_names() {
  static const std::vector<SplitNames> kNames{
      {&DataSplits::train, with_capitals({"train", "training", "train_set", "trainset"})},
      {&DataSplits::val,
       with_capitals({"val", "valid", "validation", "val_set", "valset", "valid_set", "validation_set"})},
      {&DataSplits::test, with_capitals({"test", "testing", "test_set", "testset"})}};
  return kNames;
}

const SplitNames* split_by_name(const std::string& name) {
  for (const SplitNames& split : split_names())
    if (split.has(name)) return &split;
  return nullptr;
}

std::vector<std::pair<std::string, DataPaths>> named_splits(const DataSplits& splits) {
  std::vector<std::pair<std::string, DataPaths>> found;
  for (const SplitNames& split : split_names())
    if (const auto& paths = splits.*split.split) found.emplace_back(split.names[0], *paths);
  return found;
}

void note_left_out(const std::string& place, const std::string& name, DataSplits& splits) {
  std::string why = "is not one of the splits and is left out";
  for (const SplitNames& split : split_names())
    if (const auto& taken = splits.*split.split) {
      if (taken->name() == place) return;
      if (split.has(name)) why = fmt::format("is ignored because {} exists", taken->name());
    }
  splits.notes.push_back(fmt::format("{} {}", place, why));
}

const std::optional<DataPaths>& split_called(const DataSplits& splits, const std::string& name) {
  for (const SplitNames& names : split_names())
    if (names.names[0] == name) return splits.*names.split;
  fail_input("--split: \"{}\", expected train, val or test", name);
}

DataSplits look_for_splits(const std::string& folder, const std::string& named, const Contents& wanted) {
  if (!is_folder(folder) && !is_file(folder)) fail_input("{}: no such folder or file", folder);
  DataSplits found;
  bool has_own = false;  // not only something that the wanted contents are derived from
  for (const auto& [name, format] : data_formats().all()) {
    if (!is_asked_for(format, named, wanted)) continue;
    DataSplits splits = splits_in(format, folder);
    if (splits.is_empty()) continue;
    const bool is_own = !format.provides.common(wanted).is_empty();
    if (!found.format.empty() && is_own != has_own) {
      if (has_own) continue;
      found = {};
    }
    if (!found.format.empty())
      fail_input(
          "{}: holds data sets in the formats {} and {}, expected one of them: --data with its file (a data.yaml, JSON "
          "or CSV file), or its list and its images",
          folder, found.format, name);
    for (auto split : kSplits)
      if (splits.*split) {
        (splits.*split)->format = name;
        (splits.*split)->wants = wanted;
      }
    found = std::move(splits);
    found.format = name;
    has_own = is_own;
  }
  if (named.empty() && !found.format.empty()) refuse_other_content(folder, wanted);
  note_joined_splits(found);
  join_classes(found);
  return found;
}

void join_classes(DataSplits& splits) {
  std::vector<DataPaths*> all;
  for (auto split : kSplits) {
    if (!(splits.*split)) continue;
    std::vector<DataPaths>& sets = (splits.*split)->sets;
    if (sets.empty()) all.push_back(&*(splits.*split));
    for (DataPaths& set : sets) all.push_back(&set);
  }
  for (DataPaths* paths : all)
    for (const DataPaths* other : all)
      if (other != paths)
        paths->beside.push_back(
            {.annotations = other->annotations, .images = other->images, .split = other->split});
}

void find_in_folders(const std::string& folder, DataSplits& splits,
                     const std::function<std::optional<DataPaths>(const std::string& own)>& find) {
  for_each_split_name(splits, [&](std::optional<DataPaths>& split, const std::string& name) {
    if (const std::string own = joined(folder, name); !split && is_folder(own)) split = find(own);
  });
}

std::vector<std::string> sets_below(const std::string& folder, const std::string& named,
                                    const Contents& wanted) {
  constexpr int kLevels = 2;
  constexpr size_t kFolders = 200;
  std::vector<std::string> level{folder}, found;
  for (int k = 0; k < kLevels && found.empty(); ++k) {
    std::vector<std::string> below;
    for (const std::string& own : level)
      for (const std::string& name : folders_in(own))
        if (below.size() < kFolders) below.push_back(joined(own, name));
    std::ranges::copy_if(below, std::back_inserter(found),
                         [&](const std::string& each) { return holds_set(each, named, wanted); });
    level = std::move(below);
  }
  return found;
}

DataSplits find_splits(const std::string& folder, const std::string& named, const Contents& wanted) {
  DataSplits found = look_for_splits(folder, named, wanted);
  if (!found.format.empty()) return found;
  std::string layouts;
  for (const auto& [name, format] : data_formats().all())
    if (is_asked_for(format, named, wanted))
      layouts += fmt::format("{}{} ({})", layouts.empty() ? "" : ", ", name, format.layout);
  if (is_file(folder)) refuse_set_of_another_task(folder, named, wanted);
  if (is_file(folder))
    fail_input(
        "{}: describes no known data set, expected its folder, or a data.yaml, obj.data, JSON or CSV file",
        folder);
  if (const std::vector<std::string> below = sets_below(folder, named, wanted); !below.empty())
    fail_input("{}: no data set found in the folder itself, but {}, expected --data {}{}", folder,
               below.size() == 1 ? "one in " + below[0]
                                 : fmt::format("{} in folders below, for example {}", below.size(), below[0]),
               below[0], below.size() == 1 ? "" : ", or --data for each of several");
  if (const std::string maps = wanted.label_maps ? folder_of_jpeg_maps(folder) : ""; !maps.empty())
    fail_input(
        "{}: its files are JPEG files, which do not keep exact values, expected label maps as PNG files",
        maps);
  refuse_set_of_another_task(folder, named, wanted);
  fail_input(
      "{}: no data set found in the folder, expected one of these layouts: {}; data convert FILE OUT --images DIR reads any list",
      folder, layouts);
}

std::string remark_on_shared_images(const GroundTruth& training, const DataPaths& training_paths,
                                    const GroundTruth& truth, const DataPaths& paths) {
  RealPaths real;
  std::unordered_set<std::string> known;
  for (const ImageInfo& image : training.images)
    known.insert(real.of(joined(training_paths.images, image.file_name)));
  int64_t shared = 0;
  std::string example;
  for (const ImageInfo& image : truth.images)
    if (known.contains(real.of(joined(paths.images, image.file_name))) && ++shared == 1)
      example = image.file_name;
  if (shared == 0) return "";
  return fmt::format(
      "{} also in the training set, for example {}; a model has learned such images, so metrics on them are too high",
      count_among(shared, std::ssize(truth.images), "images", "is", "are"), example);
}

std::vector<std::string> remarks_on_lone_classes(const GroundTruth& training, const GroundTruth& truth) {
  const std::map<std::string, int64_t> learned = objects_of(training), own = objects_of(truth);
  std::vector<std::string> remarks;
  if (own.empty() || learned.empty()) return remarks;
  if (const auto [names, n] = lacking(own, learned); n > 0)
    remarks.push_back(fmt::format("{} objects here, but none in the training set, which cannot teach {}: {}",
                                  count_of(static_cast<int64_t>(n), "class has", "classes have"),
                                  n == 1 ? "it" : "them", names));
  if (const auto [names, n] = lacking(learned, own); n > 0)
    remarks.push_back(fmt::format("{} objects in the training set, but none here, and so no metrics: {}",
                                  count_of(static_cast<int64_t>(n), "class has", "classes have"), names));
  return remarks;
}

std::vector<std::string> remarks_on_split(const GroundTruth& training, const DataPaths& training_paths,
                                          const GroundTruth& truth, const DataPaths& paths) {
  std::vector<std::string> remarks = remarks_on_lone_classes(training, truth);
  if (std::string shared = remark_on_shared_images(training, training_paths, truth, paths); !shared.empty())
    remarks.push_back(std::move(shared));
  return remarks;
}

}  // namespace saccade
