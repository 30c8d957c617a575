// "CVAT for images 1.1": annotations.xml next to a folder of images. Classes are the labels of the task in
// its order, else the names in the file; the splits are the subsets that its images name.
// docs/formats.md lists what is supported.
#include <algorithm>
#include <map>
#include <set>

#include "core/files/text.h"
#include "data/formats/cvat/cvat_xml.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"

namespace saccade {
namespace {

// Returns "train", "val" or "test" for the name of a subset, ignoring case; "" if it is none of them.
std::string split_of(const std::string& subset) {
  const SplitNames* split = split_by_name(lower_case(subset));
  return split ? split->names[0] : "";
}

// Returns the name below `images`: unchanged, in a folder of its subset, or with an ending, which the names
// of video frames lack.
std::string file_name_of(const CvatImage& image, const std::string& images) {
  if (images.empty()) return image.name;
  std::vector<std::string> names{name_in(images, image.name)};
  if (!image.subset.empty()) names.push_back(joined(image.subset, image.name));
  for (const std::string& name : names)
    if (is_file(joined(images, name))) return name;
  for (const std::string& name : names)
    if (std::string found = image_called(images, name); !found.empty()) return found;
  return names[0];
}

std::vector<std::string> classes_of(const CvatFile& file) {
  if (!file.labels.empty()) return file.labels;
  std::set<std::string> names;
  for (const CvatImage& image : file.images)
    for (const ImageObject& object : image.objects) names.insert(object.name);
  return {names.begin(), names.end()};
}

GroundTruth read_cvat(const DataPaths& paths, const ProblemReport& report) {
  CvatFile file = read_cvat_xml(paths.annotations, paths.wants.masks);
  for (const std::string& problem : file.problems) report(problem);
  GroundTruth truth;
  std::vector<std::string> names;
  if (paths.categories.empty()) {
    names = classes_of(file);
    for_each_beside(paths, [&](const DataPaths& other) {  // several tasks, each in its own file
      if (other.annotations == paths.annotations || !is_cvat_xml(other.annotations)) return;
      for (const std::string& name : classes_of(read_cvat_xml(other.annotations)))
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    });
  }
  truth.categories = number_classes(names, paths);
  const std::map<std::string, int64_t> ids = ids_by_name(truth.categories);
  const Place whole = truth.add_file(paths.annotations);
  truth.box_form = BoxForm::kCorners;
  for (const CvatImage& image : file.images) {
    if (!paths.split.empty() && split_of(image.subset) != paths.split) continue;
    add_image(truth, file_name_of(image, paths.images), image.width, image.height, {whole.file, image.line});
    add_objects(truth, image.objects, ids, whole, paths, report);
  }
  for (std::string& note : file.shapes.notes()) truth.notes.push_back(std::move(note));
  truth.notes.insert(truth.notes.end(), file.notes.begin(), file.notes.end());
  return truth;
}

std::string images_beside(const std::string& folder, const CvatFile& file) {
  for (const std::string& images : {joined(folder, "images"), folder})
    if (!file.images.empty() && is_folder(images) &&
        is_file(joined(images, file_name_of(file.images[0], images))))
      return images;
  return first_folder({joined(folder, "images"), folder});
}

DataSplits find_cvat_in_file(const std::string& path) {
  DataSplits splits;
  if (!is_cvat_xml(path)) return splits;
  const CvatFile file = names_subsets(path) ? read_cvat_xml(path) : first_cvat_image(path);
  const DataPaths paths{.annotations = path, .images = images_beside(parent_of(path), file)};
  int64_t others = 0;
  std::string other;
  for (const CvatImage& image : file.images) {
    const SplitNames* names = split_by_name(lower_case(image.subset));
    if (!names && ++others == 1) other = image.subset;
    if (!names || splits.*names->split) continue;
    splits.*names->split = paths;
    (splits.*names->split)->split = names->names[0];
  }
  if (splits.is_empty())
    splits.train = paths;
  else if (others > 0)
    splits.notes.push_back(
        fmt::format("{}: {} in a subset called train, val or test, and {} left out, for example \"{}\"", path,
                    count_of(others, "image is not", "images are not"), others == 1 ? "is" : "are", other));
  return splits;
}

// Finds annotations.xml in the folder, or in those of the splits.
DataSplits find_cvat(const std::string& folder) {
  DataSplits splits = find_cvat_in_file(joined(folder, "annotations.xml"));
  if (!splits.is_empty()) return splits;
  find_in_folders(folder, splits, [](const std::string& own) -> std::optional<DataPaths> {
    const std::string file = joined(own, "annotations.xml");
    if (!is_cvat_xml(file)) return std::nullopt;
    return DataPaths{.annotations = file, .images = images_beside(own, first_cvat_image(file))};
  });
  return splits;
}

[[maybe_unused]] const bool cvat_registered = data_formats().add(
    {.name = "cvat",
     .summary = "CVAT for images 1.1: one annotations.xml",
     .recognises = [](const DataPaths& paths) { return paths.annotations.ends_with(".xml"); },
     .read = read_cvat,
     .layout = "annotations.xml with images",
     .find = find_cvat,
     .find_in_file = find_cvat_in_file,
     .label_endings = {".xml"},
     .holds_labels = is_cvat_xml,
     .provides = {.boxes = true, .masks = true}});

}  // namespace
}  // namespace saccade
