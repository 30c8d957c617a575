// Pascal VOC (Everingham et al., 2010): an XML file for each image, all of a folder, or those that a list of ImageSets/Main names.
// Corners are taken as edges in pixels, as today's tools write them. Classes are numbered from 1 in the order of a classes.txt
// beside the files or above them, or else of their names.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

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

// The lists of ImageSets/Main, or in a folder of that name of another layout.
bool is_image_set(const std::string& path) {
  return path.ends_with(".txt") && fs::path(path).parent_path().filename() == "Main";
}

// The files of a set, with the folder above them. `stems` are their names below the folder of the annotations, without the ending.
struct VocFiles {
  std::string root, folder;
  std::vector<std::string> stems;
  std::string path(size_t i) const { return joined(folder, stems[i] + ".xml"); }
};

// The annotation that a line of a list names: "000001", also with what else the line says of it ("000001 -1"), in quotes, or with the
// ending of the image.
std::string stem_of_line(const std::string& folder, const TextLine& line, const std::string& list) {
  std::string text = line.text;
  if (text.size() > 1 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  std::replace(text.begin(), text.end(), '\\', '/');
  const std::string word = text.substr(0, text.find_first_of(" \t"));
  for (const std::string& name : {text, word}) {
    const fs::path path(name);
    const bool leads_out = std::find(path.begin(), path.end(), "..") != path.end();
    if (path.is_absolute() || leads_out || name.starts_with("."))
      fail_input("{}: line {}: expected the name of an annotation, found \"{}\"", list, line.number, name);
    if (is_file(joined(folder, name + ".xml"))) return name;
    if (has_image_extension(name))
      if (const std::string stem = fs::path(name).replace_extension("").string();
          is_file(joined(folder, stem + ".xml")))
        return stem;
  }
  return word;
}

VocFiles voc_files(const std::string& annotations) {
  VocFiles files;
  if (!is_image_set(annotations)) {
    if (!is_folder(annotations)) fail_input("{}: no such folder of Pascal VOC annotations", annotations);
    files.root = fs::path(annotations).parent_path().string();
    files.folder = annotations;
    for (const std::string& name : list_files_below(annotations, ".xml"))
      files.stems.push_back(name.substr(0, name.size() - 4));
    return files;
  }
  files.root = fs::path(annotations).parent_path().parent_path().parent_path().string();
  files.folder = joined(files.root, "Annotations");
  std::set<std::string> seen;
  for (const TextLine& line : text_lines(read_text(annotations, kTextFile)))
    if (const std::string stem = stem_of_line(files.folder, line, annotations); seen.insert(stem).second)
      files.stems.push_back(stem);
  return files;
}

struct VocName {
  std::string image;
  std::string other;  // that the XML names and that is there, too
};

// The image of the same name as the XML where it is there, else what the XML says.
VocName image_name(const std::string& stem, const VocFile& file, const std::string& images) {
  if (images.empty()) return {file.file_name.empty() ? stem + ".jpg" : file.file_name, ""};
  const std::string said = file.file_name.empty() ? "" : with_slashes(images, file.file_name);
  const bool is_there = !said.empty() && is_file(joined(images, said));
  // What leads out of the folder is refused by whoever looks at the images, not passed over.
  const bool leads_out =
      fs::path(said).is_absolute() || said.starts_with("../") || said.find("/../") != std::string::npos;
  if (is_there && (leads_out || fs::path(said).replace_extension("") == fs::path(stem))) return {said, ""};
  for (const char* extension : {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".JPG", ".JPEG", ".PNG", ".BMP"})
    if (std::string name = stem + extension; is_file(joined(images, name)))
      return {name, is_there ? said : ""};
  return {said.empty() ? stem + ".jpg" : said, ""};
}

struct VocRead {
  VocFile file;
  VocName name;
  std::string xml;
};

std::vector<VocRead> read_files(const VocFiles& files, const std::string& images) {
  std::vector<VocRead> read(files.stems.size());
  run_tasks(std::ssize(read), 0, [&](int64_t i) {
    VocRead& r = read[static_cast<size_t>(i)];
    r.xml = files.path(static_cast<size_t>(i));
    try {
      r.file = read_voc_xml(r.xml);
      r.name = image_name(files.stems[static_cast<size_t>(i)], r.file, images);
    } catch (const InputError& e) {
      r.file.problems.emplace_back(e.what());
    }
  });
  return read;
}

void add_names(const std::vector<VocRead>& read, std::set<std::string>& names) {
  for (const VocRead& r : read)
    for (const VocObject& object : r.file.objects) names.insert(object.name);
}

// Of a classes.txt, or all that this set and those beside it have.
std::vector<std::string> class_names(const VocFiles& files, const DataPaths& paths,
                                     const std::vector<VocRead>& read) {
  if (!paths.categories.empty()) return {};
  for (const std::string& folder : {paths.annotations, files.root})
    if (const std::string list = joined(folder, "classes.txt"); is_file(list)) return read_class_list(list);
  std::set<std::string> names;
  add_names(read, names);
  for (const std::string& other : paths.beside)
    if (is_image_set(other) || is_folder(other))  // else it is of another format
      add_names(read_files(voc_files(other), ""), names);
  return {names.begin(), names.end()};
}

// What is passed over, and what is taken although it may be meant otherwise.
void add_notes(const std::vector<VocRead>& read, const DataPaths& paths, GroundTruth& truth) {
  std::set<std::string> used;
  int64_t others = 0, difficult = 0;
  const VocRead* first = nullptr;
  for (const VocRead& r : read) {
    used.insert(fs::path(r.name.image).lexically_normal().string());
    if (!r.name.other.empty() && ++others == 1) first = &r;
  }
  for (const Annotation& a : truth.annotations) difficult += a.iscrowd;
  if (difficult > 0)
    truth.notes.push_back(
        fmt::format("{} marked as difficult, left out in training and ignored in evaluation, as in VOC's own",
                    count_of(difficult, "object is", "objects are")));
  if (others > 0)
    truth.notes.push_back(
        fmt::format("{} another image than the one of {} own name, which is taken, first {} (<filename> {})",
                    count_of(others, "XML file names", "XML files name"), others == 1 ? "its" : "their",
                    first->xml, first->name.other));
  if (paths.images.empty() || is_image_set(paths.annotations) || !is_folder(paths.images)) return;
  const FolderListing listing = list_tree(paths.images);
  int64_t without = 0;
  std::string example;
  for (const std::string& image : listing.images)
    if (!used.contains(image) && ++without == 1) example = image;
  if (without > 0)
    truth.notes.push_back(fmt::format("{} in {} {} no XML file and {} left out, first {}",
                                      count_of(without, "image", "images"), paths.images,
                                      without == 1 ? "has" : "have", without == 1 ? "is" : "are", example));
  for (std::string& note : notes_on_listing(listing, paths.images)) truth.notes.push_back(std::move(note));
}

GroundTruth read_voc(const DataPaths& paths, const ProblemReport& report) {
  const VocFiles files = voc_files(paths.annotations);
  std::vector<VocRead> read = read_files(files, paths.images);
  std::stable_sort(read.begin(), read.end(),
                   [](const VocRead& a, const VocRead& b) { return a.name.image < b.name.image; });
  GroundTruth truth;
  truth.categories = number_classes(class_names(files, paths, read), paths);
  const std::map<std::string, int64_t> ids = ids_by_name(truth.categories);
  for (size_t i = 0; i < read.size(); ++i) {
    const VocRead& r = read[i];
    for (const std::string& problem : r.file.problems) report(problem);
    if (r.name.image.empty()) continue;
    if (i > 0 && read[i - 1].name.image == r.name.image) {
      report(fmt::format("{}: is of the image {}, as is {}", r.xml, r.name.image, read[i - 1].xml));
      continue;
    }
    const bool is_sized = r.file.width > 0 && r.file.height > 0;
    truth.images.push_back({.id = std::ssize(truth.images) + 1,
                            .file_name = r.name.image,
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
                                   .area = std::max(width, 0.0) * std::max(height, 0.0),
                                   .iscrowd = object.is_difficult});
    }
  }
  add_notes(read, paths, truth);
  return truth;
}

// The lists of ImageSets/Main. VOC's own trainval is the training set where there is no train; CVAT's is called "default".
void add_image_sets(const std::string& folder, const std::string& images, DataSplits& splits) {
  const std::string main = joined(folder, "ImageSets/Main");
  std::vector<std::string> lists = list_files(main, ".txt");
  auto add = [&](std::optional<DataPaths>& split, const std::string& name) {
    if (!split && is_file(joined(main, name + ".txt")))
      split = DataPaths{.annotations = joined(main, name + ".txt"), .images = images};
  };
  for (const SplitNames& split : split_names())
    for (const std::string& name : split.names) add(splits.*split.split, name);
  add(splits.train, "trainval");
  if (!splits.train && !splits.val && !splits.test) add(splits.train, "default");
  if (!lists.empty() && !splits.train && !splits.val && !splits.test)
    splits.notes.push_back(fmt::format(
        "{}: none of its {} is called train, trainval, val, test or default (first {}), so all annotations are taken",
        main, count_of(std::ssize(lists), "list", "lists"), lists.front()));
}

// XML files in a folder of annotations or beside the images.
std::optional<DataPaths> find_voc_files(const std::string& folder, const std::string& images) {
  for (const char* name : {"Annotations", "annotations", "xmls"})
    if (const std::string own = joined(folder, name); has_files_below(own, ".xml"))
      return DataPaths{.annotations = own, .images = images.empty() ? folder : images};
  if (!list_files(folder, ".xml").empty())
    return DataPaths{.annotations = folder, .images = images.empty() ? folder : images};
  return std::nullopt;
}

std::string voc_images(const std::string& folder) {
  return first_folder({joined(folder, "JPEGImages"), joined(folder, "images"), joined(folder, "Images")});
}

// VOC's own layout; of Roboflow: train and valid with images and XML files together; a folder of each without splits.
DataSplits find_voc(const std::string& folder) {
  DataSplits splits;
  const std::string images = voc_images(folder);
  if (!images.empty()) add_image_sets(folder, images, splits);
  for (const SplitNames& split : split_names())
    for (const std::string& name : split.names)
      if (const std::string own = joined(folder, name); !(splits.*split.split) && is_folder(own))
        splits.*split.split = find_voc_files(own, voc_images(own));
  if (!splits.train && !splits.val && !splits.test) splits.train = find_voc_files(folder, images);
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
