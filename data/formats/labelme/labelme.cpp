// LabelMe: a JSON file for each image, next to it or in a separate folder. Classes are numbered from 1 in the
// order of a classes.txt, or else by name. docs/formats.md lists what is supported.
#include <filesystem>

#include "data/formats/labelme/labelme_json.h"
#include "data/formats/listing.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"

namespace saccade {
namespace {

AnnotationFiles labelme_files(const std::string& annotations) {
  AnnotationFiles files;
  if (is_folder(annotations)) {
    files = annotation_files_in(annotations, ".json");
  } else {
    files.root = files.folder = parent_of(annotations);
    files.ending = ".json";
    files.is_list = true;
    files.stems = {std::filesystem::path(annotations).stem().string()};
  }
  files.read = read_labelme_json;
  files.one = "JSON file";
  files.many = "JSON files";
  files.image_key = "imagePath";
  files.unit = "shape";
  files.box_form = BoxForm::kOther;  // points
  files.is_relative = true;
  return files;
}

GroundTruth read_labelme(const DataPaths& paths, const ProblemReport& report) {
  std::vector<AnnotationFiles> others;
  for_each_beside(paths, [&](const DataPaths& other) {
    if (is_labelme_folder(other.annotations) || is_labelme_json(other.annotations))
      others.push_back(labelme_files(other.annotations));
  });
  return read_per_image(labelme_files(paths.annotations), others, paths, report);
}

constexpr const char* kFolders[] = {"annotations", "Annotations", "labels", "json", "jsons"};

std::string labelme_images(const std::string& folder) {
  return first_folder({joined(folder, "images"), joined(folder, "JPEGImages")});
}

// Finds files in a separate folder, or next to the images.
std::optional<DataPaths> find_labelme_files(const std::string& folder) {
  const std::string images = labelme_images(folder);
  for (const char* name : kFolders)
    if (const std::string own = joined(folder, name); !images.empty() && is_labelme_folder(own))
      return DataPaths{.annotations = own, .images = images};
  if (is_labelme_folder(folder)) return DataPaths{.annotations = folder, .images = folder};
  return std::nullopt;
}

DataSplits find_labelme(const std::string& folder) {
  DataSplits splits;
  find_in_folders(folder, splits, find_labelme_files);
  if (!splits.is_empty()) return splits;
  for (const char* name : kFolders)
    if (!splits.train)
      find_in_annotations(joined(folder, name), ".json", labelme_images(folder), is_labelme_folder, splits);
  if (!splits.train) splits.train = find_labelme_files(folder);
  return splits;
}

DataSplits find_labelme_in_file(const std::string& file) {
  DataSplits splits;
  if (is_labelme_json(file)) splits.train = DataPaths{.annotations = file, .images = parent_of(file)};
  return splits;
}

[[maybe_unused]] const bool labelme_registered = data_formats().add(
    {.name = "labelme",
     .summary = "LabelMe: a JSON file for each image",
     .recognises =
         [](const DataPaths& paths) {
           return is_labelme_folder(paths.annotations) || is_labelme_json(paths.annotations);
         },
     .read = read_labelme,
     .layout = "JSON files next to the images or in annotations",
     .find = find_labelme,
     .find_in_file = find_labelme_in_file,
     .label_endings = {".json"},
     .holds_labels = is_labelme_json,
     .provides = {.boxes = true, .masks = true}});

}  // namespace
}  // namespace saccade
