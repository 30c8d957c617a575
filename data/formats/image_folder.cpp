// Folders of classes: one subfolder of images for each, as in torchvision's ImageFolder.
#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_set>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/data_format.h"
#include "data/formats/label_maps/pairs.h"
#include "data/formats/listing.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "data/images/image.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// The names in a folder, sorted, without hidden ones.
struct Listing {
  std::vector<std::string> files, folders;
};

Listing list_folder(const fs::path& folder) {
  Listing out;
  std::error_code error;
  fs::directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code broken_link;
    if (name.starts_with(".")) continue;
    (it->is_directory(broken_link) ? out.folders : out.files).push_back(name);
  }
  std::sort(out.files.begin(), out.files.end());
  std::sort(out.folders.begin(), out.folders.end());
  if (error) fail_input("{}: the folder cannot be read: {}", folder.string(), error.message());
  return out;
}

// Walks through the class folders of one set.
class Collector {
 public:
  explicit Collector(const std::string& root) : root_(root) {}
  // Collects the images of a class folder and its subfolders, in order.
  void collect(const std::string& name, std::vector<std::string>& images, std::vector<std::string>& ignored) {
    visited_.clear();
    walk(name, images, ignored);
  }
  const std::vector<std::string>& links() const { return links_; }    // to folders elsewhere
  const std::vector<std::string>& around() const { return around_; }  // which are not followed

 private:
  void walk(const fs::path& below, std::vector<std::string>& images, std::vector<std::string>& ignored) {
    const std::string folder = (root_ / below).string();
    const LinkKind kind = fs::is_symlink(folder) ? kind_of_link(root_.string(), folder) : LinkKind::kInside;
    if (kind == LinkKind::kAround) around_.push_back(below.string());
    if (kind == LinkKind::kAround || !visited_.insert(identity_of(folder)).second) return;
    if (kind == LinkKind::kOutside) links_.push_back(below.string());
    Listing listing = list_folder(root_ / below);
    for (const std::string& name : listing.files) {
      std::string path = (below / name).string();
      if (has_foreign_image_extension(name))
        fail_input("{}: images of this type are not supported, expected {}", (root_ / path).string(),
                   kImageFormats);
      (has_image_extension(name) ? images : ignored).push_back(path);
    }
    for (const std::string& name : listing.folders) walk(below / name, images, ignored);
  }

  fs::path root_;
  std::set<FileIdentity> visited_;  // of this class
  std::vector<std::string> links_, around_;
};

void check_classes(const std::string& folder, const std::vector<std::string>& found,
                   const std::vector<std::string>& expected) {
  auto missing_in = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) == list.end();
  };
  for (const std::string& name : found)
    if (missing_in(expected, name))
      fail_input("{}: has the class \"{}\", which is not one of the {} known classes (\"{}\", ...)", folder,
                 name, expected.size(), expected.front());
  for (const std::string& name : expected)
    if (missing_in(found, name))
      fail_input("{}: has no folder for the class \"{}\", expected one for each of the {} known classes",
                 folder, name, expected.size());
}

constexpr size_t kImageNetClasses = 1000;
// "n01440764": the name of an ImageNet folder; their order is that of the classes.
bool is_wordnet_number(const std::string& name) {
  return name.size() == 9 && name[0] == 'n' && name.find_first_not_of("0123456789", 1) == std::string::npos;
}

// Adds notes on folders next to those of the splits that have some of their classes.
void note_other_class_folders(const std::string& folder, DataSplits& found) {
  std::unordered_set<std::string> classes;
  for (std::string& name : folders_in(found.first()->images)) classes.insert(std::move(name));
  for (const std::string& name : folders_in(folder)) {
    const std::string own = joined(folder, name);
    if (std::ranges::any_of(folders_in(own), [&](auto& inner) { return classes.contains(inner); }))
      note_left_out(own, name, found);
  }
}

// Returns "DIR: 800 images of 10 classes", how many files are left out, and links.
std::vector<std::string> lines_about(const std::string& folder, const GroundTruth& truth,
                                     const std::vector<std::string>& ignored, const Collector& collector) {
  std::string text =
      fmt::format("{}: {} of {}", folder, count_of(std::ssize(truth.images), "image", "images"),
                  count_of(std::ssize(truth.categories), "class", "classes"));
  if (!ignored.empty())
    text += fmt::format("; {} left out, for example \"{}\"",
                        count_of(std::ssize(ignored), "other file is", "other files are"), ignored.front());
  std::vector<std::string> lines{text};
  for (const std::string& note : notes_on_links(collector.links(), collector.around(), folder))
    lines.push_back("note: " + note);
  std::vector<std::string> images;
  for (const ImageInfo& image : truth.images) images.push_back(image.file_name);
  if (const std::vector<std::string> maps = maps_beside_images(images); !maps.empty())
    lines.push_back(fmt::format(
        "note: {}: {} named like label maps of the images next to them (IMAGE_mask.png), but read as images of "
        "their classes, for example {}",
        folder, count_of(std::ssize(maps), "file is", "files are"), maps.front()));
  if (truth.categories.size() == 1)
    lines.push_back(fmt::format("note: {}: has only one class (\"{}\"), so there is nothing to tell apart",
                                folder, truth.categories.front().name));
  return lines;
}

// The classes are the subfolders in the order of their names (byte by byte), each with at least one image;
// images are ordered by class, then folder, then name. The class folders are searched recursively, without
// hidden files and folders. Links to folders are followed, except those to a folder that contains this one;
// if several lead to the same folder, only the first counts. With paths.categories, the subfolders must be
// exactly these, or as many WordNet ids ("n01440764") that stand for them in their order. Throws InputError
// if the folder is missing, has no class folders, a class has no image, an image is of a type that is not
// read (HEIC, AVIF), or the classes differ.
GroundTruth read_class_folders(const DataPaths& paths, const ProblemReport&) {
  const std::string& folder = paths.images;
  std::error_code error;
  if (!fs::is_directory(folder, error)) fail_input("{}: no such folder of images", folder);
  const Listing top = list_folder(folder);
  if (top.folders.empty())
    fail_input("{}: has no class folders, expected one sub-folder of images for each class", folder);
  GroundTruth truth;
  truth.names_all_images = true;
  std::vector<std::string> folders;
  for (const Category& c : paths.categories) folders.push_back(c.name);
  const bool is_numbered = folders.size() == kImageNetClasses && top.folders.size() == folders.size() &&
                           std::ranges::all_of(top.folders, is_wordnet_number) &&
                           std::ranges::none_of(folders, is_wordnet_number);
  if (!folders.empty() && !is_numbered) check_classes(folder, top.folders, folders);
  if (folders.empty() || is_numbered) folders = top.folders;
  truth.categories = number_classes(folders, paths);
  std::vector<std::string> images, ignored = top.files;
  Collector collector(folder);
  for (size_t k = 0; k < folders.size(); ++k) {
    images.clear();
    collector.collect(folders[k], images, ignored);
    if (images.empty())
      fail_input("{}: the class folder has no images, expected images such as *.jpg or *.png",
                 (fs::path(folder) / folders[k]).string());
    for (std::string& image : images)
      truth.images.push_back({.id = std::ssize(truth.images),
                              .file_name = std::move(image),
                              .category_id = truth.categories[k].id});
  }
  truth.links = collector.links();
  truth.told = lines_about(folder, truth, ignored, collector);
  return truth;
}

DataSplits find_class_folders(const std::string& folder) {
  DataSplits found;
  find_in_folders(folder, found,
                  [](const std::string& own) { return DataPaths{.annotations = "", .images = own}; });
  if (found.is_empty()) found.train = DataPaths{.annotations = "", .images = folder};
  if (!found.train || found.train->images != folder) note_other_class_folders(folder, found);
  return found;
}

[[maybe_unused]] const bool image_folder_registered =
    data_formats().add({.name = "folder",
                        .summary = "a folder with one sub-folder of images for each class",
                        .recognises = nullptr,
                        .read = read_class_folders,
                        .layout = "folders train and val with one folder of images for each class",
                        .find = find_class_folders,
                        .provides = {.image_classes = true}});

}  // namespace
}  // namespace saccade
