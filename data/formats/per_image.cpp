#include "data/formats/per_image.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/files/text.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "data/images/image.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

struct ImageName {
  std::string image;
  std::string other;  // another existing image, which the file names
};

// Returns the image with the same name as the file if it exists, else the one that the file names. With
// `is_relative`, the folders in that name are relative to another place.
ImageName image_name(const std::string& stem, const ImageAnnotation& file, const std::string& images,
                     bool is_relative) {
  if (images.empty()) return {file.file_name.empty() ? stem + ".jpg" : file.file_name, ""};
  if (is_relative) {
    std::string said = file.file_name;
    std::ranges::replace(said, '\\', '/');
    const std::string beside = (fs::path(stem).parent_path() / fs::path(said).filename()).string();
    const bool is_there = !said.empty() && is_file(joined(images, beside));
    const std::string own = image_called(images, stem);
    if (!own.empty()) return {own, is_there && beside != own ? beside : ""};
    if (is_there) return {beside, ""};
  }
  const std::string said = file.file_name.empty() ? "" : name_in(images, file.file_name);
  const bool is_there = !said.empty() && is_file(joined(images, said));
  // A name that leads out of the folder is refused by the code that inspects the images, not skipped here.
  const bool leads_out =
      fs::path(said).is_absolute() || said.starts_with("../") || said.find("/../") != std::string::npos;
  if (is_there && (leads_out || fs::path(said).replace_extension("") == fs::path(stem))) return {said, ""};
  if (std::string name = image_called(images, stem); !name.empty()) return {name, is_there ? said : ""};
  return {said.empty() ? stem + ".jpg" : said, ""};
}

struct ReadFile {
  ImageAnnotation file;
  ImageName name;  // empty if the file cannot be read
  std::string path, stem;
};

// Returns the fault, or if the file is missing, that with the line of the list that names it.
std::string named_fault(const AnnotationFiles& files, size_t i, const std::string& list,
                        const std::string& fault) {
  const std::string path = files.path(i);
  std::error_code error;
  if (files.lines.empty() || fs::exists(path, error)) return fault;
  return fmt::format("{}: line {}: {}: no such file", list, files.lines.at(i), path);
}

// list: the one that names the files.
std::vector<ReadFile> read_files(const AnnotationFiles& files, const std::string& images,
                                 const std::string& list) {
  std::vector<ReadFile> read(files.stems.size());
  run_tasks(std::ssize(read), 0, [&](int64_t i) {
    ReadFile& r = read[static_cast<size_t>(i)];
    r.path = files.path(static_cast<size_t>(i));
    r.stem = files.stems[static_cast<size_t>(i)];
    try {
      r.file = files.read(r.path);
      r.name = image_name(r.stem, r.file, images, files.is_relative);
    } catch (const InputError& e) {
      r.file.problems.push_back(named_fault(files, static_cast<size_t>(i), list, e.what()));
    }
  });
  return read;
}

void add_names(const std::vector<ReadFile>& read, std::set<std::string>& names) {
  for (const ReadFile& r : read)
    for (const ImageObject& object : r.file.objects) names.insert(object.name);
}

// Returns the classes of a classes.txt, or all of this set and those next to it.
std::vector<std::string> class_names(const AnnotationFiles& files, const std::vector<AnnotationFiles>& others,
                                     const DataPaths& paths, const std::vector<ReadFile>& read) {
  if (!paths.categories.empty()) return {};
  for (const std::string& folder : {paths.annotations, files.root})
    if (const std::string list = joined(folder, "classes.txt"); is_file(list)) return read_class_list(list);
  std::set<std::string> names;
  add_names(read, names);
  for (const AnnotationFiles& other : others) add_names(read_files(other, "", ""), names);
  return {names.begin(), names.end()};
}

// Adds notes on images of the folder without a file, and on what was skipped in the folder.
void note_images(const AnnotationFiles& files, const std::vector<AnnotationFiles>& others,
                 const std::vector<ReadFile>& read, const std::string& images, GroundTruth& truth) {
  if (images.empty() || files.is_list || !is_folder(images)) return;
  std::set<std::string> used, of_others;
  for (const ReadFile& r : read) used.insert(fs::path(r.name.image).lexically_normal().string());
  // The image of a file that cannot be read, which was reported, has one too.
  for (const ReadFile& r : read)
    if (r.name.image.empty()) of_others.insert(r.stem);
  for (const AnnotationFiles& other : others)
    if (!other.is_list) of_others.insert(other.stems.begin(), other.stems.end());
  FolderListing listing = list_tree(images);
  std::erase_if(listing.bare, [&](const std::string& image) { return used.contains(image); });
  truth.links = listing.links;
  truth.names_all_images = true;
  int64_t without = 0;
  std::string example;
  for (const std::string& image : listing.images)
    if (!used.contains(image) && !of_others.contains(fs::path(image).replace_extension("").string()) &&
        ++without == 1)
      example = image;
  if (without > 0)
    truth.notes.push_back(fmt::format("{} in {} {} no {} in {} and {} left out, for example {}",
                                      count_of(without, "image", "images"), images,
                                      without == 1 ? "has" : "have", files.one, files.folder,
                                      without == 1 ? "is" : "are", example));
  for (std::string& note : notes_on_listing(listing, images)) truth.notes.push_back(std::move(note));
}

// Adds notes on things that may be meant otherwise, and on what was skipped.
void add_notes(const AnnotationFiles& files, const std::vector<AnnotationFiles>& others,
               const std::vector<ReadFile>& read, const std::string& images, GroundTruth& truth) {
  int64_t renamed = 0, difficult = 0;
  const ReadFile* first = nullptr;
  ShapeKinds shapes;
  for (const ReadFile& r : read) {
    if (!r.name.other.empty() && ++renamed == 1) first = &r;
    shapes.add(r.file.shapes);
  }
  for (const Annotation& a : truth.annotations) difficult += a.iscrowd;
  if (difficult > 0)
    truth.notes.push_back(
        fmt::format("{} marked as difficult, left out of training and ignored in evaluation, as VOC does",
                    count_of(difficult, "object is", "objects are")));
  for (std::string& note : shapes.notes()) truth.notes.push_back(std::move(note));
  if (renamed > 0)
    truth.notes.push_back(fmt::format(
        "{} {} another image than the one with {} own name, which is used, for example {} ({} {})",
        count_of(renamed, files.one, files.many), renamed == 1 ? "names" : "name",
        renamed == 1 ? "its" : "their", first->path, files.image_key, first->name.other));
  if (files.folder != images)
    for (std::string& note : notes_on_links(files.links, files.around, files.folder))
      truth.notes.push_back(std::move(note));
  note_images(files, others, read, images, truth);
}

}  // namespace

void ShapeKinds::leave_out(const std::string& what) {
  if (++left_out == 1) first = what;
}

void ShapeKinds::add(const ShapeKinds& other) {
  if (left_out == 0) first = other.first;
  boxed += other.boxed;
  left_out += other.left_out;
}

std::vector<std::string> ShapeKinds::notes() const {
  std::vector<std::string> notes;
  if (boxed > 0)
    notes.push_back(count_of(boxed, "shape is not an upright box (a polygon, ellipse, mask or rotated box)",
                             "shapes are not upright boxes (polygons, ellipses, masks or rotated boxes)") +
                    "; the upright box around each is used");
  if (left_out > 0)
    notes.push_back(
        fmt::format("{} left out because only boxes, polygons, ellipses and masks are read, for example {}",
                    count_of(left_out, "shape is", "shapes are"), first));
  return notes;
}

int64_t image_side(std::string_view text) {
  const auto number = finite_number(text);
  return number && *number >= 1 && *number <= 1 << 20 ? static_cast<int64_t>(*number) : 0;
}

std::shared_ptr<const Segmentation> polygon_mask(std::vector<double> points) {
  auto mask = std::make_shared<Segmentation>();
  mask->polygons.push_back(std::move(points));
  return mask;
}

void add_image(GroundTruth& truth, const std::string& file_name, int64_t width, int64_t height, Place place) {
  const bool is_sized = width > 0 && height > 0;
  truth.images.push_back({.id = std::ssize(truth.images) + 1,
                          .file_name = file_name,
                          .width = is_sized ? width : 0,
                          .height = is_sized ? height : 0,
                          .place = place});
}

void add_objects(GroundTruth& truth, const std::vector<ImageObject>& objects,
                 const std::map<std::string, int64_t>& ids, Place file, const DataPaths& paths,
                 const ProblemReport& report) {
  for (const ImageObject& object : objects) {
    const Place place{file.file, object.number};
    const std::optional<int64_t> category = id_of_class(object.name, ids, truth, place, report);
    if (!category) continue;
    const auto [x1, y1, x2, y2] = object.box;
    const double width = round_pixels(x2 - x1), height = round_pixels(y2 - y1);
    truth.annotations.push_back({.id = std::ssize(truth.annotations) + 1,
                                 .image_id = truth.images.back().id,
                                 .category_id = *category,
                                 .bbox = {x1, y1, width, height},
                                 .area = std::max(width, 0.0) * std::max(height, 0.0),
                                 .iscrowd = object.is_difficult,
                                 .place = place});
    if (!paths.wants.masks) continue;
    truth.annotations.back().segmentation = object.segmentation;
    if (object.mask_fault.empty()) continue;
    report(object.mask_fault);
    ++truth.faulty_masks;
  }
}

std::string AnnotationFiles::path(size_t i) const { return joined(folder, stems[i] + ending); }

void find_in_annotations(const std::string& annotations, const std::string& ending, const std::string& images,
                         const std::function<bool(const std::string& folder)>& holds, DataSplits& splits) {
  if (images.empty() || !is_folder(annotations) || !list_files(annotations, ending).empty()) return;
  DataSplits found;
  find_in_folders(annotations, found, [&](const std::string& own) -> std::optional<DataPaths> {
    if (!holds(own)) return std::nullopt;
    const std::string inner = joined(images, fs::path(own).filename().string());
    return DataPaths{.annotations = own, .images = is_folder(inner) ? inner : images};
  });
  if (!found.train) return;
  splits.train = found.train;
  splits.val = found.val;
  splits.test = found.test;
}

AnnotationFiles annotation_files_in(const std::string& folder, const std::string& ending) {
  AnnotationFiles files{.root = fs::path(folder).parent_path().string(), .folder = folder};
  // Annotations/train: files next to Annotations belong to the set.
  const std::string above = fs::path(files.root).filename().string();
  if (split_by_name(fs::path(folder).filename().string()) &&
      (above == "Annotations" || above == "annotations"))
    files.root = fs::path(files.root).parent_path().string();
  files.ending = ending;
  for (const std::string& name : list_files_below(folder, ending, &files.links, &files.around))
    files.stems.push_back(name.substr(0, name.size() - ending.size()));
  return files;
}

namespace {

// Returns whether it is a test set's list of images without any annotation files.
bool is_without_files(const AnnotationFiles& files) {
  for (size_t i = 0; i < files.stems.size(); ++i)
    if (is_file(files.path(i))) return false;
  return files.is_list && !files.stems.empty();
}

GroundTruth images_alone(const AnnotationFiles& files, const DataPaths& paths) {
  GroundTruth truth;
  truth.is_annotated = false;
  truth.categories = paths.categories;
  const Place list = truth.add_file(paths.annotations);
  for (const std::string& stem : files.stems) {
    const std::string image = has_image_extension(stem) ? stem : image_called(paths.images, stem);
    add_image(truth, image.empty() ? stem + ".jpg" : image, 0, 0, list);
  }
  return truth;
}

}  // namespace

GroundTruth read_per_image(const AnnotationFiles& files, const std::vector<AnnotationFiles>& others,
                           const DataPaths& paths, const ProblemReport& report) {
  if (paths.may_lack_annotations && !paths.categories.empty() && is_without_files(files))
    return images_alone(files, paths);
  std::vector<ReadFile> read = read_files(files, paths.images, paths.annotations);
  std::stable_sort(read.begin(), read.end(),
                   [](const ReadFile& a, const ReadFile& b) { return a.name.image < b.name.image; });
  GroundTruth truth;
  truth.box_form = files.box_form;
  truth.categories = number_classes(class_names(files, others, paths, read), paths);
  const std::map<std::string, int64_t> ids = ids_by_name(truth.categories);
  for (size_t i = 0; i < read.size(); ++i) {
    const ReadFile& r = read[i];
    for (const std::string& problem : r.file.problems) report(problem);
    if (r.name.image.empty()) {
      ++truth.left_out.images;
      continue;
    }
    if (i > 0 && read[i - 1].name.image == r.name.image) {
      report(fmt::format("{}: belongs to the image {}, as does {}", r.path, r.name.image, read[i - 1].path));
      continue;
    }
    const Place file = truth.add_file(r.path, files.unit);
    add_image(truth, r.name.image, r.file.width, r.file.height, file);
    add_objects(truth, r.file.objects, ids, file, paths, report);
  }
  add_notes(files, others, read, paths.images, truth);
  return truth;
}

}  // namespace saccade
