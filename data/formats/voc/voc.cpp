// Pascal VOC (Everingham et al., 2010): an XML file for each image, either all of a folder or those that a
// list of ImageSets names. Corners are read as edges in pixels, as today's tools write them. Classes are
// numbered from 1 in the order of a classes.txt next to the files or above them, or else by name.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "core/files/file.h"
#include "core/tensor/error.h"
#include "data/formats/cvat/cvat_xml.h"
#include "data/formats/labelme/labelme_json.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "data/formats/voc/voc_xml.h"
#include "data/images/image.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// The folders of the lists of splits, in order of precedence.
constexpr const char* kListFolders[] = {"ImageSets/Main", "ImageSets", "ImageSets/Segmentation",
                                        "ImageSets/Layout"};

// Returns the folder of the data set for a list of ImageSets, or of a folder Main of another layout.
std::optional<std::string> root_of_list(const std::string& path) {
  if (!path.ends_with(".txt")) return std::nullopt;
  const fs::path folder = fs::path(path).parent_path();
  if (folder.filename() == "ImageSets") return folder.parent_path().string();
  if (folder.filename() == "Main" || folder.parent_path().filename() == "ImageSets")
    return folder.parent_path().parent_path().string();
  return std::nullopt;
}

bool is_image_set(const std::string& path) { return root_of_list(path).has_value(); }

// Returns the annotation that a line of a list names: "000001", possibly followed by other fields ("000001
// -1"), in quotes, or with the ending of the image.
std::string stem_of_line(const std::string& folder, const TextLine& line, const std::string& list) {
  std::string text = line.text;
  if (text.size() > 1 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  std::replace(text.begin(), text.end(), '\\', '/');
  std::string word = text.substr(0, text.find_first_of(" \t"));
  for (const std::string& name : {text, word}) {
    const fs::path path(name);
    const bool leads_out = std::find(path.begin(), path.end(), "..") != path.end();
    if (path.is_absolute() || leads_out || name.starts_with("."))
      fail_input("{}: line {}: expected the name of an annotation, found \"{}\"", list, line.number, name);
    if (is_file(joined(folder, name + ".xml"))) return name;
    if (has_image_extension(name))
      if (std::string stem = fs::path(name).replace_extension("").string();
          is_file(joined(folder, stem + ".xml")))
        return stem;
    if (const std::string spelled = name_in(folder, name + ".xml"); spelled != name + ".xml")
      return spelled.substr(0, spelled.size() - 4);
  }
  return word;
}

AnnotationFiles voc_files(const std::string& annotations) {
  AnnotationFiles files;
  if (const std::optional<std::string> root = root_of_list(annotations)) {
    files.is_list = true;
    files.ending = ".xml";
    files.root = *root;
    files.folder = joined(files.root, "Annotations");
    std::set<std::string> seen;
    for (const TextLine& line : text_lines(read_text(annotations, kTextFile)))
      if (const std::string stem = stem_of_line(files.folder, line, annotations); seen.insert(stem).second) {
        files.stems.push_back(stem);
        files.lines.push_back(line.number);
      }
  } else {
    if (!is_folder(annotations)) fail_input("{}: no such folder of Pascal VOC annotations", annotations);
    files = annotation_files_in(annotations, ".xml");
  }
  files.read = read_voc_xml;
  files.one = "XML file";
  files.many = "XML files";
  files.image_key = "<filename>";
  return files;
}

// Adds a note if a folder is given although there are lists of its splits.
void note_unread_lists(const DataPaths& paths, GroundTruth& truth) {
  if (!is_folder(paths.annotations)) return;
  for (const std::string& root : {paths.annotations, fs::path(paths.annotations).parent_path().string()})
    for (const char* lists : kListFolders)
      for (const SplitNames& split : split_names())
        for (const std::string& name : split.names)
          if (const std::string list = joined(joined(root, lists), name + ".txt"); is_file(list)) {
            truth.notes.push_back(
                fmt::format("all annotations in the folder are used, although {} lists a split; give that "
                            "list instead of the folder to read only the split",
                            list));
            return;
          }
}

std::vector<std::string> files_named_in(const std::string& list, const DataPaths&) {
  std::vector<std::string> places;
  if (!is_image_set(list)) return places;
  const AnnotationFiles files = voc_files(list);
  for (size_t i = 0; i < files.stems.size(); ++i) places.push_back(files.path(i));
  return places;
}

std::vector<std::string> voc_places(const DataPaths& paths) {
  std::vector<std::string> places = files_named_in(paths.annotations, paths);
  places.push_back(paths.annotations);
  return places;
}

GroundTruth read_voc(const DataPaths& paths, const ProblemReport& report) {
  std::vector<AnnotationFiles> others;
  for_each_beside(paths, [&](const DataPaths& other) {
    if (is_image_set(other.annotations) || is_folder(other.annotations))  // otherwise it has another format
      others.push_back(voc_files(other.annotations));
  });
  const AnnotationFiles files = voc_files(paths.annotations);
  if (files.stems.empty() && !files.is_list)  // any folder without another known list comes here
    fail_input("{}: holds no annotations (XML files), expected a list of boxes or a folder of annotations",
               paths.annotations);
  GroundTruth truth = read_per_image(files, others, paths, report);
  note_unread_lists(paths, truth);
  return truth;
}

// Adds the lists of ImageSets. VOC's own trainval is the training set if there is no train;
// CVAT's is called "default".
void add_image_sets(const std::string& folder, const std::string& images, DataSplits& splits) {
  std::string others;
  const bool has_boxes =
      has_files_below(joined(folder, "Annotations"), ".xml");  // otherwise the lists are of label maps
  for (const char* own : kListFolders) {
    if (own != kListFolders[0] && !has_boxes) break;
    const std::string lists = joined(folder, own);
    auto add = [&](std::optional<DataPaths>& split, const std::string& name) {
      if (const std::string list = joined(lists, name + ".txt"); !split && is_file(list))
        split = DataPaths{.annotations = list, .images = images};
    };
    for_each_split_name(splits, add);
    add(splits.train, "trainval");
    if (splits.is_empty()) add(splits.train, "default");
    if (!splits.is_empty()) return;
    const std::vector<std::string> names = list_files(lists, ".txt");
    if (others.empty() && !names.empty())
      others = fmt::format(
          "{}: has no list called train, trainval, val, test or default (but for example {}), so all annotations are used",
          lists, names.front());
  }
  if (!others.empty()) splits.notes.push_back(std::move(others));
}

// Returns whether the folder has XML files that are not CVAT's.
bool holds_others_than_cvat(const std::string& folder) {
  const std::vector<std::string> files = list_files(folder, ".xml");
  return !std::ranges::all_of(files,
                              [&](const std::string& name) { return is_cvat_xml(joined(folder, name)); });
}

// Finds XML files in a folder of annotations or next to the images.
std::optional<DataPaths> find_voc_files(const std::string& folder, const std::string& images) {
  for (const char* name : {"Annotations", "annotations", "xmls"})
    if (const std::string own = joined(folder, name);
        has_files_below(own, ".xml") && (list_files(own, ".xml").empty() || holds_others_than_cvat(own)))
      return DataPaths{.annotations = own, .images = images.empty() ? folder : images};
  if (holds_others_than_cvat(folder))
    return DataPaths{.annotations = folder, .images = images.empty() ? folder : images};
  return std::nullopt;
}

std::string voc_images(const std::string& folder) {
  return first_folder({joined(folder, "JPEGImages"), joined(folder, "images"), joined(folder, "Images")});
}

// Layouts: VOC's own; Roboflow: train and valid with images and XML files together; a folder of each, with or
// without splits as subfolders of both.
DataSplits find_voc(const std::string& folder) {
  DataSplits splits;
  const std::string images = voc_images(folder);
  if (!images.empty()) add_image_sets(folder, images, splits);
  find_in_folders(folder, splits,
                  [](const std::string& own) { return find_voc_files(own, voc_images(own)); });
  if (!splits.is_empty()) return splits;
  for (const char* name : {"Annotations", "annotations", "xmls"})
    if (!splits.train)
      find_in_annotations(
          joined(folder, name), ".xml", images,
          [](const std::string& own) { return has_files_below(own, ".xml"); }, splits);
  if (!splits.train) splits.train = find_voc_files(folder, images);
  return splits;
}

[[maybe_unused]] const bool voc_registered =
    data_formats().add({.name = "voc",
                        .summary = "Pascal VOC: a folder of XML files, or a list of them in ImageSets",
                        .recognises =
                            [](const DataPaths& paths) {
                              return is_image_set(paths.annotations) ||
                                     (is_folder(paths.annotations) && !is_labelme_folder(paths.annotations));
                            },
                        .read = read_voc,
                        .layout = "XML files in Annotations or next to the images",
                        .find = find_voc,
                        .label_endings = {".xml"},
                        .holds_labels = is_voc_xml,
                        .label_places = voc_places,
                        .named_in = files_named_in});

}  // namespace
}  // namespace saccade
