#include <fmt/ranges.h>

#include "core/tensor/error.h"
#include "data/formats/listing.h"
#include "data/formats/splits.h"
#include "data/formats/yolo/yolo_sets.h"
#include "data/images/image.h"

namespace saccade {
namespace {

// Returns the images of a split that no file names, by the usual names; "" if there are none.
std::string usual_images(const std::string& folder, const SplitNames& split) {
  std::vector<std::string> usual;
  for (const std::string& name : split.names) {
    usual.push_back(joined(folder, name + "/images"));
    usual.push_back(joined(folder, "images/" + name));
  }
  return first_folder(usual);
}

// Everything that the file names must exist, except a test split, which many exporters name even if there is
// none. The usual folders are searched for only if it names no images at all.
DataSplits splits_named_in(const YoloYaml& set, const std::string& file) {
  DataSplits splits;
  const std::string folder = parent_of(file);
  if (const std::string own = joined(folder, set.path); !set.path.empty() && is_folder(own))
    splits.folder = own;
  for (const std::string& note : set.notes) splits.notes.push_back(fmt::format("{}: {}", file, note));
  for (const SplitNames& split : split_names()) {
    const std::string& name = split.names[0];
    if (!set.splits.contains(name)) {
      const bool may_search = set.splits.empty() && !is_darknet_data(file);
      const std::string images = may_search ? usual_images(folder, split) : "";
      if (!images.empty()) splits.*split.split = DataPaths{.annotations = file, .images = images};
      if (!set.splits.empty() && name == "train")
        splits.notes.push_back(fmt::format("{}: has no \"train\", so there are no training images", file));
      continue;
    }
    try {
      const std::vector<YoloSource> sources = sources_of(set, file, name);
      DataPaths paths{.annotations = file, .images = common_root(sources, set, file)};
      if (sources.size() > 1 || sources[0].is_list) paths.split = name;
      splits.*split.split = paths;
    } catch (const InputError& e) {
      if (name != "test") throw;
      splits.notes.push_back(fmt::format("{}; so there are no test images", e.what()));
    }
  }
  if (set.splits.empty() && !splits.train && !splits.val && is_folder(joined(folder, "images")))
    splits.train = DataPaths{.annotations = file, .images = joined(folder, "images")};
  return splits;
}

bool names_classes(const std::string& file) {
  try {
    read_yolo_description(file);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// Returns the folder's files that describe a data set; other files may be about anything.
std::vector<std::string> descriptions_in(const std::string& folder) {
  std::vector<std::string> found;
  for (const char* ending : {".yaml", ".yml", ".data"})
    for (const std::string& name : list_files(folder, ending))
      if (names_classes(joined(folder, name))) found.push_back(joined(folder, name));
  return found;
}

// Returns the file that describes the set; "" if there is none.
std::string description_in(const std::string& folder) {
  for (const char* usual : {"data.yaml", "dataset.yaml", "data.yml", "dataset.yml", "obj.data"})
    if (is_file(joined(folder, usual))) return joined(folder, usual);
  const std::vector<std::string> others = descriptions_in(folder);
  if (others.size() > 1)
    fail_input("{}: {} each describe a data set, expected one of them instead of the folder: --data {}",
               folder, fmt::join(others, ", "), others[0]);
  if (others.size() == 1) return others[0];
  const std::string darknet = joined(folder, "data/obj.data");
  return is_file(darknet) ? darknet : "";
}

// Returns whether images and their labels are side by side.
bool is_flat(const std::string& folder) {
  if (!is_folder(folder)) return false;
  for (const std::string& text : list_files(folder, ".txt")) {
    if (is_class_list(text)) continue;
    if (!image_called(folder, text.substr(0, text.size() - 4)).empty()) return true;
  }
  return false;
}

std::string class_list_in(const std::string& folder) {
  for (const char* name : {"classes.txt", "obj.names", "labels/classes.txt"})
    if (is_file(joined(folder, name))) return joined(folder, name);
  return "";
}

DataSplits splits_beside_class_list(const std::string& folder) {
  DataSplits splits;
  const std::string list = class_list_in(folder), images = joined(folder, "images");
  for_each_split_name(splits, [&](std::optional<DataPaths>& split, const std::string& name) {
    const std::string own = joined(folder, name), own_list = class_list_in(own);
    const std::string& classes = own_list.empty() ? list : own_list;
    if (split || classes.empty()) return;
    const std::string found = first_folder({joined(own, "images"), joined(images, name)});
    if (!found.empty() && !label_folder(found).empty())
      split = DataPaths{.annotations = classes, .images = found};
    else if (is_flat(own))
      split = DataPaths{.annotations = classes, .images = own};
  });
  if (!splits.is_empty() || list.empty()) return splits;
  if (is_folder(images) && (is_folder(joined(folder, "labels")) || is_flat(images)))
    splits.train = DataPaths{.annotations = list, .images = images};
  else if (is_flat(folder))
    splits.train = DataPaths{.annotations = list, .images = folder};
  return splits;
}

}  // namespace

DataSplits find_yolo(const std::string& folder) {
  const std::string file = description_in(folder);
  if (file.empty()) return splits_beside_class_list(folder);
  DataSplits splits = splits_named_in(read_yolo_description(file), file);
  for (const std::string& other : descriptions_in(folder))
    if (other != file) splits.notes.push_back(fmt::format("{} is ignored because {} exists", other, file));
  return splits;
}

DataSplits find_yolo_in_file(const std::string& file) {
  if (!is_yolo_yaml(file) && !is_darknet_data(file)) return {};
  return splits_named_in(read_yolo_description(file), file);
}

}  // namespace saccade
