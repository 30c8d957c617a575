// YOLO: a text file for each image, with a line for each object: its class and, in parts of the image, the centre and the size of its
// box, or the corners of a polygon, which stands for the box around it. The classes' names are in data.yaml or a list beside it. The
// labels of a/images/b.jpg are in a/labels/b.txt, or beside the image.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/files/file.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "data/formats/yolo/yolo_names.h"
#include "data/images/image.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr FileKind kLabelFile{"a file of YOLO labels", uint64_t{64} << 20};
constexpr const char* kListNames[] = {"classes.txt", "obj.names"};

bool is_yaml(const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

bool is_class_list(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return std::find(std::begin(kListNames), std::end(kListNames), name) != std::end(kListNames);
}

// The folder of a split as data.yaml says it. What exporters write is often relative to another folder: without the leading "../" it is
// looked for beside the file.
std::string split_folder(const YoloYaml& yaml, const std::string& file, const std::string& split) {
  auto entry = yaml.folders.find(split);
  if (entry == yaml.folders.end()) return "";
  const std::string beside = fs::path(file).parent_path().string();
  std::string below = entry->second;
  while (below.starts_with("../") || below.starts_with("./")) below.erase(0, below.find('/') + 1);
  return first_folder({joined(joined(beside, yaml.path), entry->second), joined(beside, entry->second),
                       joined(joined(beside, yaml.path), below), joined(beside, below)});
}

std::string label_folder(const std::string& images) {
  std::vector<fs::path> parts;
  for (const fs::path& part : fs::path(images)) parts.push_back(part);
  if (!parts.empty() && parts.back().empty()) parts.pop_back();  // behind a last slash
  auto last = std::find(parts.rbegin(), parts.rend(), "images");
  if (last != parts.rend()) {
    *last = "labels";
    fs::path labels;
    for (const fs::path& part : parts) labels /= part;
    if (is_folder(labels.string())) return labels.string();
  }
  return images;
}

struct LabelledImage {
  ImageInfo image;
  std::vector<std::pair<int64_t, std::array<double, 4>>> boxes;  // label; x, y, width, height in pixels
  std::vector<std::string> problems;
  bool has_labels = false;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// What is wrong with the line; "": the box is appended.
std::string read_label(std::string_view line, int64_t classes, LabelledImage& out) {
  const std::vector<std::string_view> words = words_of(line);
  if (words.empty()) return "";
  const bool is_polygon = words.size() >= 7 && words.size() % 2 == 1;
  if (words.size() != 5 && !is_polygon)
    return fmt::format("expected a class and 4 numbers, or the corners of a polygon; found {} words",
                       words.size());
  const auto label = finite_number(words[0]);
  if (!label || *label < 0 || *label >= static_cast<double>(classes) || *label != std::floor(*label))
    return fmt::format("expected a class from 0 to {}, found \"{}\"", classes - 1, words[0].substr(0, 40));
  std::vector<double> values;
  for (size_t i = 1; i < words.size(); ++i) {
    const auto value = finite_number(words[i]);
    if (!value || *value < -1 || *value > 2)
      return fmt::format("expected a part of the image from 0 to 1, found \"{}\"", words[i].substr(0, 40));
    values.push_back(*value);
  }
  double x1 = 2, y1 = 2, x2 = -1, y2 = -1;
  if (is_polygon) {
    for (size_t i = 0; i < values.size(); i += 2) {
      x1 = std::min(x1, values[i]), x2 = std::max(x2, values[i]);
      y1 = std::min(y1, values[i + 1]), y2 = std::max(y2, values[i + 1]);
    }
  } else {
    x1 = values[0] - values[2] / 2, x2 = values[0] + values[2] / 2;
    y1 = values[1] - values[3] / 2, y2 = values[1] + values[3] / 2;
  }
  const auto width = static_cast<double>(out.image.width), height = static_cast<double>(out.image.height);
  const double left = round_pixels(x1 * width), top = round_pixels(y1 * height);
  if (width > 0)  // else the image cannot be read, which whoever looks at the images tells
    out.boxes.push_back({static_cast<int64_t>(*label),
                         {left, top, round_pixels(round_pixels(x2 * width) - left),
                          round_pixels(round_pixels(y2 * height) - top)}});
  return "";
}

LabelledImage read_labelled(const std::string& images, const std::string& labels, const std::string& name,
                            int64_t classes) {
  LabelledImage out;
  out.image.file_name = name;
  try {
    const ImageSize size = image_size(joined(images, name));
    out.image.width = size.width;
    out.image.height = size.height;
  } catch (const InputError&) {
  }
  const std::string path = (fs::path(labels) / name).replace_extension(".txt").string();
  if (!is_file(path)) return out;
  out.has_labels = true;
  try {
    const std::string text = read_text(path, kLabelFile);
    int64_t number = 0;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      ++number;
      if (const std::string problem =
              read_label(std::string_view(text).substr(begin, end - begin), classes, out);
          !problem.empty())
        out.problems.push_back(fmt::format("{}: line {}: {}", path, number, problem));
      begin = end + 1;
    }
  } catch (const InputError& e) {
    out.problems.emplace_back(e.what());
  }
  return out;
}

GroundTruth read_yolo(const DataPaths& paths, const ProblemReport& report) {
  std::string images = paths.images;
  std::vector<std::string> names;
  if (is_class_list(paths.annotations)) {
    names = read_class_list(paths.annotations);
  } else {
    const YoloYaml yaml = read_yolo_yaml(paths.annotations);
    names = yaml.names;
    if (images.empty()) images = split_folder(yaml, paths.annotations, "train");
  }
  if (images.empty())
    fail_input("{}: the labels of YOLO are found by their images, expected the folder of the images",
               paths.annotations);
  GroundTruth truth;
  truth.categories = number_classes(names, paths);
  const std::map<std::string, int64_t> ids = ids_by_name(truth.categories);
  const std::vector<std::string> files = list_images(images);
  const std::string labels = label_folder(images);
  std::vector<LabelledImage> found(files.size());
  run_tasks(std::ssize(files), 0, [&](int64_t i) {
    const auto k = static_cast<size_t>(i);
    found[k] = read_labelled(images, labels, files[k], std::ssize(names));
  });
  if (!files.empty() && std::none_of(found.begin(), found.end(), [](auto& f) { return f.has_labels; }))
    report(fmt::format("{}: none of the {} images in {} has labels, expected them in files like {}",
                       paths.annotations, files.size(), images,
                       (fs::path(labels) / files[0]).replace_extension(".txt").string()));
  for (LabelledImage& f : found) {
    f.image.id = std::ssize(truth.images) + 1;
    for (const std::string& problem : f.problems) report(problem);
    for (const auto& [label, box] : f.boxes) {
      const std::string& name = names[static_cast<size_t>(label)];
      const auto id = ids.find(name);
      if (id == ids.end()) {
        report(fmt::format("{}: {} has the class \"{}\", which is not one of the {} that are known",
                           paths.annotations, f.image.file_name, name, ids.size()));
        continue;
      }
      truth.annotations.push_back({.id = std::ssize(truth.annotations) + 1,
                                   .image_id = f.image.id,
                                   .category_id = id->second,
                                   .bbox = box,
                                   .area = std::max(box[2], 0.0) * std::max(box[3], 0.0)});
    }
    truth.images.push_back(std::move(f.image));
  }
  return truth;
}

bool names_classes(const std::string& yaml) {
  try {
    read_yolo_yaml(yaml);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// Of Ultralytics and Roboflow: a data.yaml that names the folders; or a list of classes beside images and labels.
DataSplits find_yolo(const std::string& folder) {
  DataSplits splits;
  std::string file;
  for (const char* usual : {"data.yaml", "dataset.yaml", "data.yml"})
    if (file.empty() && is_file(joined(folder, usual))) file = joined(folder, usual);
  // One of another name may be about anything.
  std::vector<std::string> others = list_files(folder, ".yaml");
  if (file.empty() && others.size() == 1 && names_classes(joined(folder, others[0])))
    file = joined(folder, others[0]);
  if (!file.empty()) {
    const YoloYaml yaml = read_yolo_yaml(file);
    for (const SplitNames& split : split_names()) {
      std::string images = split_folder(yaml, file, split.names[0]);
      std::vector<std::string> usual;
      for (const std::string& name : split.names) {
        usual.push_back(joined(folder, name + "/images"));
        usual.push_back(joined(folder, "images/" + name));
      }
      if (images.empty()) images = first_folder(usual);
      if (!images.empty()) splits.*split.split = DataPaths{.annotations = file, .images = images};
    }
    if (!splits.train && !splits.val && is_folder(joined(folder, "images")))
      splits.train = DataPaths{.annotations = file, .images = joined(folder, "images")};
    return splits;
  }
  for (const char* name : kListNames)
    if (!splits.train && is_file(joined(folder, name)) && is_folder(joined(folder, "images")) &&
        is_folder(joined(folder, "labels")))
      splits.train = DataPaths{.annotations = joined(folder, name), .images = joined(folder, "images")};
  return splits;
}

[[maybe_unused]] const bool yolo_registered = detection_formats().add(
    {.name = "yolo",
     .summary =
         "YOLO: a text file of boxes for each image, and data.yaml or classes.txt with the names of the classes",
     .recognises =
         [](const DataPaths& paths) {
           return is_yaml(paths.annotations) || is_class_list(paths.annotations);
         },
     .read = read_yolo,
     .layout = "data.yaml",
     .find = find_yolo,
     .file = __FILE__});

}  // namespace
}  // namespace saccade
