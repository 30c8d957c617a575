#include "data/formats/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "core/tensor/error.h"
#include "data/formats/data_format.h"
#include "data/formats/listing.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

[[maybe_unused]] const bool image_folder_registered = classification_formats().add(
    {.name = "folder",
     .summary = "a folder with one sub-folder of images for each class",
     .recognises = nullptr,  // the default: folders that no other format recognises
     .open = [](const DataPaths& paths,
                const std::vector<std::string>& classes) -> std::shared_ptr<const ClassificationDataset> {
       auto set = std::make_shared<ImageFolder>(ImageFolder::load(paths.images, classes));
       if (paths.most > 0) set->keep(paths.most);
       return set;
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

// Walks through the class folders of one set.
class Collector {
 public:
  explicit Collector(const std::string& root) : root_(root) {}
  // Images of a class folder and of its folders, in order.
  void collect(const std::string& name, std::vector<std::string>& images, std::vector<std::string>& ignored) {
    visited_.clear();
    walk(name, images, ignored);
  }
  const std::vector<std::string>& links() const { return links_; }    // to folders elsewhere
  const std::vector<std::string>& around() const { return around_; }  // that are not followed

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
        fail_input("{}: images of this type are not read, expected {}", (root_ / path).string(),
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
      fail_input("{}: has the class \"{}\", which is not one of the model's {} classes (\"{}\", ...)", folder,
                 name, expected.size(), expected.front());
  for (const std::string& name : expected)
    if (missing_in(found, name))
      fail_input("{}: has no folder for the class \"{}\", expected one for each of the model's {} classes",
                 folder, name, expected.size());
}

constexpr size_t kImageNetClasses = 1000;
// "n01440764": what ImageNet's folders are called, in the order of its classes.
bool is_wordnet_number(const std::string& name) {
  return name.size() == 9 && name[0] == 'n' && name.find_first_not_of("0123456789", 1) == std::string::npos;
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
  const bool is_numbered = classes.size() == kImageNetClasses &&
                           top.folders.size() == set.class_names_.size() &&
                           std::all_of(top.folders.begin(), top.folders.end(), is_wordnet_number) &&
                           std::none_of(classes.begin(), classes.end(), is_wordnet_number);
  if (!classes.empty() && !is_numbered) check_classes(folder, top.folders, classes);
  Collector collector(folder);
  for (size_t k = 0; k < set.class_names_.size(); ++k) {
    const std::string& name = is_numbered ? top.folders[k] : set.class_names_[k];
    collector.collect(name, set.files_, set.ignored_);
    if (set.files_.size() == set.labels_.size())
      fail_input("{}: the class folder has no images, expected *.jpg, *.png or the like",
                 (fs::path(folder) / name).string());
    set.labels_.resize(set.files_.size(), static_cast<int64_t>(k));
  }
  set.links_ = collector.links();
  set.around_ = collector.around();
  return set;
}

void ImageFolder::keep(int64_t most) {
  std::vector<size_t> places(files_.size()), rounds(files_.size());
  std::iota(places.begin(), places.end(), size_t{0});
  for (size_t i = 1; i < files_.size(); ++i) rounds[i] = labels_[i] == labels_[i - 1] ? rounds[i - 1] + 1 : 0;
  std::ranges::stable_sort(places, {}, [&](size_t i) { return rounds[i]; });
  places.resize(std::min(places.size(), static_cast<size_t>(most)));
  std::ranges::sort(places);
  for (size_t k = 0; k < places.size(); ++k) {
    files_[k] = files_[places[k]];
    labels_[k] = labels_[places[k]];
  }
  files_.resize(places.size());
  labels_.resize(places.size());
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
  std::vector<std::string> notes{text};
  for (const std::string& note : notes_on_links(links_, around_, folder_)) notes.push_back("note: " + note);
  if (class_names_.size() == 1)
    notes.push_back(fmt::format("note: {}: has one class only (\"{}\"), so there is nothing to tell apart",
                                folder_, class_names_.front()));
  return notes;
}

Sample ImageFolder::make_sample(int64_t index, Image image) const {
  Sample sample;
  sample.image = std::move(image);
  sample.label = label(index);
  return sample;
}

}  // namespace saccade
