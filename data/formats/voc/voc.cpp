// Pascal VOC (Everingham et al., 2010): an XML file for each image, all of a folder, or those that a list of ImageSets/Main names.
// Corners are taken as edges in pixels, as today's tools write them. Classes are numbered from 1 in the order of a classes.txt
// beside the files or above them, or else of their names.
#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/files/file.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "data/formats/voc/voc_xml.h"
#include "data/images/image.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

bool is_image_set(const std::string& path) {
  return path.ends_with(".txt") && fs::path(path).parent_path().filename() == "Main";
}

// The files of a set, with the folder above them.
struct VocFiles {
  std::string root;
  std::vector<std::string> paths;
};

VocFiles voc_files(const std::string& annotations) {
  VocFiles files;
  if (!is_image_set(annotations)) {
    if (!is_folder(annotations)) fail_input("{}: no such folder of Pascal VOC annotations", annotations);
    files.root = fs::path(annotations).parent_path().string();
    for (const std::string& name : list_files(annotations, ".xml"))
      files.paths.push_back(joined(annotations, name));
    return files;
  }
  files.root = fs::path(annotations).parent_path().parent_path().parent_path().string();
  std::istringstream in(read_text(annotations, kTextFile));
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::string name;
    std::istringstream(line) >> name;
    if (name.empty()) continue;
    if (name.find('/') != std::string::npos || name.starts_with("."))
      fail_input("{}: line {}: expected the name of an annotation, found \"{}\"", annotations, number, name);
    files.paths.push_back(joined(joined(files.root, "Annotations"), name + ".xml"));
  }
  return files;
}

// What the XML says where it names an image that is there, else the image of the same name as the XML.
std::string image_name(const std::string& xml, const VocFile& file, const std::string& images) {
  if (!images.empty()) {
    if (!file.file_name.empty() && is_file(joined(images, file.file_name))) return file.file_name;
    for (const char* extension : {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".JPG", ".JPEG", ".PNG"})
      if (std::string name = fs::path(xml).stem().string() + extension; is_file(joined(images, name)))
        return name;
  }
  return file.file_name.empty() ? fs::path(xml).stem().string() + ".jpg" : file.file_name;
}

std::vector<std::string> class_names(const VocFiles& files, const std::string& annotations,
                                     const std::vector<VocFile>& found) {
  for (const std::string& folder : {annotations, files.root})
    if (const std::string list = joined(folder, "classes.txt"); is_file(list)) return read_class_list(list);
  std::set<std::string> names;
  for (const VocFile& file : found)
    for (const VocObject& object : file.objects) names.insert(object.name);
  return {names.begin(), names.end()};
}

GroundTruth read_voc(const DataPaths& paths, const ProblemReport& report) {
  const VocFiles files = voc_files(paths.annotations);
  struct Read {
    VocFile file;
    std::string name, xml;
  };
  std::vector<Read> read(files.paths.size());
  run_tasks(std::ssize(read), 0, [&](int64_t i) {
    Read& r = read[static_cast<size_t>(i)];
    r.xml = files.paths[static_cast<size_t>(i)];
    try {
      r.file = read_voc_xml(r.xml);
      r.name = image_name(r.xml, r.file, paths.images);
    } catch (const InputError& e) {
      r.file.problems.emplace_back(e.what());
    }
  });
  std::stable_sort(read.begin(), read.end(), [](const Read& a, const Read& b) { return a.name < b.name; });
  std::vector<VocFile> all;
  for (const Read& r : read) all.push_back(r.file);

  GroundTruth truth;
  truth.categories = number_classes(class_names(files, paths.annotations, all), paths);
  const std::map<std::string, int64_t> ids = ids_by_name(truth.categories);
  for (size_t i = 0; i < read.size(); ++i) {
    const Read& r = read[i];
    for (const std::string& problem : r.file.problems) report(problem);
    if (r.name.empty()) continue;
    if (i > 0 && read[i - 1].name == r.name) {
      report(fmt::format("{}: is of the image {}, as is {}", r.xml, r.name, read[i - 1].xml));
      continue;
    }
    const bool is_sized = r.file.width > 0 && r.file.height > 0;
    truth.images.push_back({.id = std::ssize(truth.images) + 1,
                            .file_name = r.name,
                            .width = is_sized ? r.file.width : 0,
                            .height = is_sized ? r.file.height : 0});
    for (const VocObject& object : r.file.objects) {
      const auto id = ids.find(object.name);
      if (id == ids.end()) {
        report(fmt::format("{}: the class \"{}\" is not one of the {} that are known", r.xml, object.name,
                           ids.size()));
        continue;
      }
      const auto [x1, y1, x2, y2] = object.corners;
      const double width = round_pixels(x2 - x1), height = round_pixels(y2 - y1);
      truth.annotations.push_back({.id = std::ssize(truth.annotations) + 1,
                                   .image_id = truth.images.back().id,
                                   .category_id = id->second,
                                   .bbox = {x1, y1, width, height},
                                   .area = std::max(width, 0.0) * std::max(height, 0.0)});
    }
  }
  return truth;
}

// VOC's own layout; of Roboflow: train and valid with images and XML files together; a folder of each without splits.
DataSplits find_voc(const std::string& folder) {
  DataSplits splits;
  const std::string images =
      first_folder({joined(folder, "JPEGImages"), joined(folder, "images"), joined(folder, "Images")});
  for (const SplitNames& split : split_names())
    for (const std::string& name : split.names) {
      const std::string list = joined(folder, "ImageSets/Main/" + name + ".txt"), own = joined(folder, name);
      if (splits.*split.split) continue;
      if (!images.empty() && is_file(list))
        splits.*split.split = DataPaths{.annotations = list, .images = images};
      else if (!list_files(own, ".xml").empty())
        splits.*split.split = DataPaths{.annotations = own, .images = own};
    }
  if (splits.train || splits.val || splits.test) return splits;
  for (const char* name : {"Annotations", "annotations", "."})
    if (const std::string own = std::string(name) == "." ? folder : joined(folder, name);
        !splits.train && !list_files(own, ".xml").empty())
      splits.train = DataPaths{.annotations = own, .images = images.empty() ? folder : images};
  return splits;
}

[[maybe_unused]] const bool voc_registered = detection_formats().add(
    {.name = "voc",
     .summary = "Pascal VOC: a folder of XML files, or a list of them in ImageSets/Main",
     .recognises =
         [](const DataPaths& paths) {
           return is_image_set(paths.annotations) || is_folder(paths.annotations);
         },
     .read = read_voc,
     .layout = "XML files in Annotations or beside the images",
     .find = find_voc,
     .file = __FILE__});

}  // namespace
}  // namespace saccade
