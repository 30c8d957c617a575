#include <algorithm>
#include <cmath>

#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/formats/coco/coco.h"
#include "data/formats/data_format.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"

namespace saccade {
namespace {

// Names with the separators of Windows, where they are of no file as they stand.
void find_files_of_windows(GroundTruth& truth, const std::string& folder) {
  int64_t of_windows = 0;
  for (ImageInfo& image : truth.images) {
    std::string name = image.file_name;
    std::replace(name.begin(), name.end(), '\\', '/');
    if (name == image.file_name || name.find('\0') != std::string::npos ||
        is_file(joined(folder, image.file_name)) || !is_file(joined(folder, name)))
      continue;
    image.file_name = name;
    ++of_windows;
  }
  if (of_windows > 0)
    truth.notes.push_back(
        fmt::format("{} images are named with \"\\\", as on Windows; it is read as \"/\"", of_windows));
}

GroundTruth read_coco_format(const DataPaths& paths, const ProblemReport& report) {
  GroundTruth truth = read_coco(
      paths, [&](const std::string& problem) { report(fmt::format("{}: {}", paths.annotations, problem)); });
  if (!paths.images.empty()) find_files_of_windows(truth, paths.images);
  return truth;
}

// The images of annotations/instances_train2017.json are in train2017, in images/train2017, or all in images.
std::string image_folder(const std::string& folder, const std::string& stem, const std::string& split) {
  return first_folder({joined(folder, stem), joined(folder, "images/" + stem),
                       joined(folder, "images/" + split), joined(folder, split + "/images"),
                       joined(folder, split), joined(folder, "images"), folder});
}

// Of Roboflow and of `saccade data shapes`: a file in each split's folder; of COCO: a folder of annotations; one file.
DataSplits find_coco(const std::string& folder) {
  DataSplits splits;
  auto add = [&](std::optional<DataPaths>& split, const std::string& file, const std::string& images) {
    if (!split && is_file(file)) split = DataPaths{.annotations = file, .images = images};
  };
  for (const SplitNames& split : split_names())
    for (const std::string& name : split.names) {
      std::optional<DataPaths>& to = splits.*split.split;
      const std::string own = joined(folder, name);
      add(to, joined(own, "_annotations.coco.json"), own);
      add(to, joined(own, "annotations.json"), first_folder({joined(own, "images"), own}));
      const std::string annotations = joined(folder, "annotations");
      add(to, joined(annotations, name + ".json"), image_folder(folder, name, name));
      for (const std::string& file : list_files(annotations, ".json"))
        if (file.starts_with("instances_" + name)) {
          const std::string stem = file.substr(10, file.size() - 15);
          add(to, joined(annotations, file), image_folder(folder, stem, name));
        }
      add(to, joined(folder, name + ".json"), image_folder(folder, name, name));
    }
  if (splits.train || splits.val || splits.test) return splits;
  for (const char* file :
       {"annotations.json", "_annotations.coco.json", "annotations/instances_default.json"})
    add(splits.train, joined(folder, file), image_folder(folder, "default", "default"));
  return splits;
}

[[maybe_unused]] const bool coco_registered = detection_formats().add(
    {.name = "coco",
     .summary = "COCO instances: one json file",
     .recognises = nullptr,  // the default: annotations that no other format recognises
     .read = read_coco_format,
     .layout = "annotations/*.json or _annotations.coco.json",
     .find = find_coco,
     .file = __FILE__});

}  // namespace

AnnotatedImages load_coco(const std::string& annotations, const std::string& images_dir, LabelScheme labels) {
  return {annotations, images_dir,
          read_coco({.annotations = annotations, .images = images_dir},
                    [&](const std::string& problem) { fail_input("{}: {}", annotations, problem); }),
          labels};
}

std::string coco_json(const GroundTruth& truth, const std::string& description) {
  std::string out = fmt::format("{{\"info\":{{\"description\":{}}},\n\"images\":[", json_quote(description));
  const char* separator = "\n";
  for (const ImageInfo& i : truth.images) {
    out += fmt::format("{}{{\"id\":{},\"file_name\":{},\"width\":{},\"height\":{}}}", separator, i.id,
                       json_quote(i.file_name), i.width, i.height);
    separator = ",\n";
  }
  out += "],\n\"annotations\":[";
  separator = "\n";
  for (const Annotation& a : truth.annotations) {
    SACCADE_CHECK(std::isfinite(a.bbox[0] + a.bbox[1] + a.bbox[2] + a.bbox[3] + a.area),
                  "[coco_json] annotation {} is not finite", a.id);
    out += fmt::format(
        "{}{{\"id\":{},\"image_id\":{},\"category_id\":{},\"bbox\":[{},{},{},{}],\"area\":{},\"iscrowd\":{}}}",
        separator, a.id, a.image_id, a.category_id, a.bbox[0], a.bbox[1], a.bbox[2], a.bbox[3], a.area,
        a.iscrowd ? 1 : 0);
    separator = ",\n";
  }
  out += "],\n\"categories\":[";
  separator = "\n";
  for (const Category& c : truth.categories) {
    out += fmt::format("{}{{\"id\":{},\"name\":{}}}", separator, c.id, json_quote(c.name));
    separator = ",\n";
  }
  return out + "]}\n";
}

}  // namespace saccade
