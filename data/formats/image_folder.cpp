#include "data/formats/image_folder.h"

#include <algorithm>
#include <filesystem>

#include "core/tensor/error.h"
#include "data/formats/data_format.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

[[maybe_unused]] const bool image_folder_registered = classification_formats().add(
    {.name = "folder",
     .summary = "a folder with one sub-folder of images for each class",
     .recognises = nullptr,  // the default: folders that no other format recognises
     .open = [](const DataPaths& paths,
                const std::vector<std::string>& classes) -> std::shared_ptr<const ClassificationDataset> {
       return std::make_shared<ImageFolder>(ImageFolder::load(paths.images, classes));
     },
     .file = __FILE__});

// The names in a folder, sorted, hidden ones left out.
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
  if (error) fail_input("{}: the folder cannot be read: {}", folder.string(), error.message());
  std::sort(out.files.begin(), out.files.end());
  std::sort(out.folders.begin(), out.folders.end());
  return out;
}

bool is_unread_type(const std::string& name) {
  std::string extension = lower_extension(name);
  return extension == ".webp" || extension == ".tif" || extension == ".tiff";
}

// Images of `below` (a path under root) and of its folders, in order.
void collect(const fs::path& root, const fs::path& below, std::vector<std::string>& images,
             std::vector<std::string>& ignored) {
  Listing listing = list_folder(root / below);
  for (const std::string& name : listing.files) {
    std::string path = (below / name).string();
    if (is_unread_type(name))
      fail_input("{}: images of this type cannot be read, expected JPEG or PNG", (root / path).string());
    (has_image_extension(name) ? images : ignored).push_back(path);
  }
  for (const std::string& name : listing.folders) collect(root, below / name, images, ignored);
}

void check_classes(const std::string& folder, const std::vector<std::string>& found,
                   const std::vector<std::string>& expected) {
  auto missing_in = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) == list.end();
  };
  for (const std::string& name : found)
    if (missing_in(expected, name))
      fail_input("{}: has the class \"{}\", which is not one of the model's {} classes (\"{}\", ...)", folder,
                 name, expected.size(), expected.front());
  for (const std::string& name : expected)
    if (missing_in(found, name))
      fail_input("{}: has no folder for the class \"{}\", expected one for each of the model's {} classes",
                 folder, name, expected.size());
}

}  // namespace

ImageFolder ImageFolder::load(const std::string& folder, const std::vector<std::string>& classes) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) fail_input("{}: no such folder of images", folder);
  Listing top = list_folder(folder);
  if (top.folders.empty())
    fail_input("{}: has no class folders, expected one sub-folder of images for each class", folder);
  ImageFolder set;
  set.folder_ = folder;
  set.ignored_ = top.files;
  set.class_names_ = classes.empty() ? top.folders : classes;
  if (!classes.empty()) check_classes(folder, top.folders, classes);
  for (size_t k = 0; k < set.class_names_.size(); ++k) {
    const std::string& name = set.class_names_[k];
    collect(folder, name, set.files_, set.ignored_);
    if (set.files_.size() == set.labels_.size())
      fail_input("{}: the class folder has no images, expected *.jpg, *.png or the like",
                 (fs::path(folder) / name).string());
    set.labels_.resize(set.files_.size(), static_cast<int64_t>(k));
  }
  return set;
}

std::string ImageFolder::image_path(int64_t index) const {
  return (fs::path(folder_) / file_name(index)).string();
}

const std::string& ImageFolder::file_name(int64_t index) const {
  return files_.at(static_cast<size_t>(index));
}

std::vector<std::string> ImageFolder::notes() const {
  std::string text = fmt::format("{}: {} images of {} classes", folder_, num_images(), class_names_.size());
  if (!ignored_.empty())
    text += fmt::format("; {} other files are left out (\"{}\")", ignored_.size(), ignored_.front());
  return {text};
}

Sample ImageFolder::make_sample(int64_t index, Image image) const {
  Sample sample;
  sample.image = std::move(image);
  sample.label = label(index);
  return sample;
}

}  // namespace saccade
