#include "data/formats/checks/unused_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_set>
#include <utility>

#include "core/files/text.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/formats/coco/coco.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/listing.h"
#include "data/formats/splits.h"
#include "data/images/image.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxSeen = 300'000;  // files and folders
constexpr size_t kMaxRead = 5000;      // whose beginnings are read
constexpr size_t kMaxLists = 100;

// Identifies everything by its name without links.
class Search {
 public:
  Search(const DataFormat& format, const DataSplits& own, const std::vector<DataSplits>& all)
      : format_(format), splits_(own) {
    for (const DataSplits& splits : all)
      for (const auto& [name, split] : named_splits(splits))
        for (const DataPaths& set : sets_of(split)) add_read(set);
  }

  std::vector<std::string> run(const std::string& place) {
    const std::string described = splits_.folder.empty() ? parent_of(place) : splits_.folder;
    if (!choose_folder(is_folder(place) ? place : described)) return {};
    walk();
    std::ranges::sort(labels_);
    find_unread();
    name_lists();
    return lines();
  }

 private:
  void add_read(const DataPaths& set) {
    const DataFormat& format = data_formats().find(set.format);
    std::vector<std::string> places{set.annotations};
    if (format.label_places != nullptr) places = format.label_places(set);
    for (const std::string& place : places)
      if (!place.empty()) read_.insert(real_.of(place));
    if (!set.images.empty()) images_.push_back(real_.of(set.images));
    if (format_.named_in != nullptr && format.name == format_.name) listed_.push_back(set);
  }

  bool choose_folder(const std::string& folder) {
    folder_ = folder;
    set_root();
    if (folders_.empty()) {
      folder_ = common_folder({read_.begin(), read_.end()});
      set_root();
    }
    return root_ != "/" && !folders_.empty();
  }

  // Sets the root, and the folders below it in which something is read.
  void set_root() {
    std::error_code error;
    root_ = fs::canonical(folder_, error).string();
    for (const std::string& place : read_)
      for (std::string at = parent_of(place); is_below(at, root_) && folders_.insert(at).second;)
        at = parent_of(at);
  }

  static bool is_below(const std::string& path, const std::string& folder) {
    return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
  }

  void walk() {
    std::error_code error, broken_link;
    fs::recursive_directory_iterator it(root_, fs::directory_options::skip_permission_denied, error), end;
    for (int64_t seen = 0; !error && it != end; it.increment(error)) {
      const std::string& path = it->path().native();
      if (++seen > kMaxSeen) {
        is_whole_ = false;
        return;
      }
      if (path[path.rfind('/') + 1] == '.' || read_.contains(path)) {
        it.disable_recursion_pending();
      } else if (it->is_directory(broken_link)) {
        if (it->is_symlink(broken_link)) add_link(path);
      } else if (has_label_ending(path)) {
        labels_.push_back(path);
      } else if (!listed_.empty() && path.ends_with(".txt")) {
        texts_.push_back(path);
      }
    }
  }

  bool has_label_ending(const std::string& path) const {
    return std::ranges::any_of(format_.label_endings, [&](const char* e) { return path.ends_with(e); });
  }

  // Skips links to what is read, and those among the images, which their reader follows and reports.
  void add_link(const std::string& link) {
    const std::string target = real_path(link);
    const bool is_read = std::ranges::any_of(
        read_, [&](const std::string& place) { return place == target || parent_of(place) == target; });
    const bool is_of_images = std::ranges::any_of(
        images_, [&](const std::string& images) { return images != root_ && is_below(link, images); });
    if (!is_read && !is_of_images && kind_of_link(root_, link) == LinkKind::kOutside) links_.push_back(link);
  }

  // Returns the highest folder containing the file in which nothing is read; the file itself if there is
  // none, or if it is among the images.
  std::string place_of(const std::string& path) const {
    if (std::ranges::any_of(images_, [&](const std::string& images) { return is_below(path, images); }))
      return path;
    for (size_t end = root_.size(); (end = path.find('/', end + 1)) != path.npos;)
      if (std::string folder = path.substr(0, end); !folders_.contains(folder)) return folder;
    return path;
  }

  void find_unread() {
    size_t looked_at = 0;
    for (const std::string& path : labels_) {
      if (!unread_.empty() && path.starts_with(unread_.back() + "/")) continue;
      if (++looked_at > kMaxRead) is_whole_ = false;
      if (!is_whole_) return;
      if (format_.holds_labels(path) && !is_read(path)) unread_.push_back(place_of(path));
    }
  }

  // Returns whether it is read under another name, through a link.
  bool is_read(const std::string& path) {
    if (!std::exchange(has_links_, true)) {
      const std::vector<std::string> places(read_.begin(), read_.end());
      for (const std::string& place : places) read_.insert(real_path(place));
      set_root();
    }
    const std::string file = real_path(path);
    for (size_t end = file.size(); end != file.npos && end > 0; end = file.rfind('/', end - 1))
      if (read_.contains(file.substr(0, end))) return true;
    return false;
  }

  static std::string real_path(const std::string& path) {
    std::error_code error;
    return fs::canonical(path, error).string();
  }

  // Replaces unread files by the unread lists that name them.
  void name_lists() {
    if (unread_.empty() || listed_.empty()) return;
    const std::unordered_set<std::string> unread(unread_.begin(), unread_.end());
    std::unordered_set<std::string> named;
    std::vector<std::string> lists;
    texts_.insert(texts_.end(), labels_.begin(), labels_.end());
    size_t looked_at = 0;
    for (const std::string& path : texts_) {
      if (place_of(path) != path || unread.contains(path) || looked_at == kMaxLists) continue;
      const std::vector<std::string> labels = format_.named_in(path, listed_[0]);
      looked_at += !labels.empty();
      bool names_any = false;
      for (const std::string& label : labels) {
        const std::string file = real_.of(label);
        if (!unread.contains(place_of(file))) continue;
        names_any = true;
        named.insert(file);
      }
      if (names_any) lists.push_back(path);
    }
    std::erase_if(unread_, [&](const std::string& place) { return named.contains(place); });
    unread_.insert(unread_.end(), lists.begin(), lists.end());
    std::ranges::sort(unread_);
  }

  std::string name_of(const std::string& path) const {
    return joined(folder_, fs::path(path).lexically_relative(root_).string());
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    const auto is_told = [&](const std::string& place) {
      const auto tells = [&](const std::string& note) {
        return note.starts_with(place + ": ") || note.starts_with(place + " is ") ||
               note.starts_with(place + "/");
      };
      return std::ranges::any_of(splits_.notes, tells) || std::ranges::any_of(lines, tells);
    };
    std::vector<std::string> others;
    for (const std::string& path : unread_) {
      const std::string place = name_of(path);
      if (is_told(place)) continue;
      if (const DataPaths* taken = split_called(fs::path(place).stem().string()))
        lines.push_back(fmt::format("{} is ignored because {} exists", place,
                                    split_called(fs::path(taken->annotations).stem().string()) == taken
                                        ? taken->annotations
                                        : taken->images));
      else
        others.push_back(place);
    }
    if (others.size() == 1)
      lines.push_back(
          fmt::format("{} holds labelled data but is not one of the splits and is left out", others[0]));
    else if (!others.empty())
      lines.push_back(fmt::format(
          "{} folders or files in {} hold labelled data but are not among the splits and are left out, for example {}",
          others.size(), folder_, others[0]));
    if (!links_.empty())
      lines.push_back(fmt::format(
          "{} in {} {} out of it and {} not searched for more labelled data, for example {} (to {})",
          count_of(std::ssize(links_), "link to a folder", "links to folders"), folder_,
          links_.size() == 1 ? "leads" : "lead", links_.size() == 1 ? "is" : "are", name_of(links_[0]),
          real_path(links_[0])));
    if (!is_whole_)
      lines.push_back(
          fmt::format("{} is too large to search completely for labelled data besides the splits", folder_));
    return lines;
  }

  // Returns the split with this name or one of its synonyms; null if there is none.
  const DataPaths* split_called(const std::string& name) const {
    const SplitNames* names = split_by_name(name);
    return names && splits_.*names->split ? &*(splits_.*names->split) : nullptr;
  }

  const DataFormat& format_;
  const DataSplits& splits_;
  std::string folder_, root_;  // the root is the folder with links resolved
  RealPaths real_;
  std::unordered_set<std::string> read_, folders_;
  std::vector<DataPaths> listed_;
  std::vector<std::string> images_;          // the image folders of the splits
  std::vector<std::string> labels_, texts_;  // files, by their endings
  std::vector<std::string> links_, unread_;
  bool is_whole_ = true, has_links_ = false;  // read_ contains the targets of its links
};

}  // namespace

std::vector<std::string> notes_on_unused(const std::string& place, const DataSplits& own,
                                         const std::vector<DataSplits>& all) {
  const DataFormat& format = data_formats().find(own.format);
  if (format.holds_labels == nullptr || (!is_folder(place) && format.holds_labels(place))) return {};
  try {
    return Search(format, own, all).run(place);
  } catch (const InputError&) {  // the code that reads the sets reports it
    return {};
  }
}

namespace {

// Adds names relative to the folder, even for absolute ones or those that lead out of it and in again.
void add_names(const GroundTruth& truth, const std::string& folder, std::unordered_set<std::string>& names) {
  std::error_code error;
  const fs::path root = fs::absolute(folder, error).lexically_normal();
  const auto add = [&](const std::string& file_name) {
    const fs::path name(file_name);
    const bool is_plain = !name.is_absolute() && file_name.find("..") == std::string::npos;
    names.insert(is_plain ? name.lexically_normal().string()
                          : (root / name).lexically_normal().lexically_relative(root).string());
  };
  for (const ImageInfo& image : truth.images) add(image.file_name);
  for (const std::string& name : truth.faulty_image_names) add(name);
}

bool is_written_list(const std::string& file) {
  return is_file(file) && head_of(file, kJsonFile, kWrittenList.size()) == kWrittenList;
}

// Lists the folders that contain the named images: a list of several sets may be relative to a folder with
// any contents.
FolderListing list_named_folders(const GroundTruth& truth, const std::string& folder) {
  FolderListing listing;
  std::set<std::string> folders;
  for (const ImageInfo& image : truth.images)
    folders.insert(fs::path(image.file_name).parent_path().string());
  for (const std::string& own : folders)
    for (const std::string& name : list_files(joined(folder, own), ""))
      if (has_image_extension(name)) listing.images.push_back((fs::path(own) / name).string());
  return listing;
}

}  // namespace

void note_unnamed_images(GroundTruth& truth, const DataPaths& paths,
                         GroundTruth (*read)(const DataPaths& paths, const ProblemReport& report),
                         double seconds) {
  if (truth.names_all_images || !is_folder(paths.images)) return;
  try {
    FolderListing listing = is_written_list(paths.annotations) ? list_named_folders(truth, paths.images)
                                                               : list_tree(paths.images, seconds);
    if (!listing.is_whole) {
      truth.notes.push_back(
          fmt::format("{} is too large to search within {} seconds for images that are not listed",
                      paths.images, seconds));
      return;
    }
    std::vector<std::string>& images = listing.images;
    for (const auto& others : {listing.foreign, listing.bare})
      images.insert(images.end(), others.begin(), others.end());
    std::unordered_set<std::string> names;
    auto leave_unnamed = [&](const GroundTruth& lists) {
      add_names(lists, paths.images, names);
      std::erase_if(images, [&](const std::string& image) { return names.contains(image); });
    };
    leave_unnamed(truth);
    for (const DataPaths& other : paths.beside) {
      if (images.empty() || (other.annotations != paths.annotations && other.images != paths.images))
        continue;
      DataPaths there = other;
      there.images = paths.images;
      there.wants = {.boxes = false};  // only the names
      try {
        leave_unnamed(read(there, [](const std::string&) {}));
      } catch (const InputError&) {  // the code that needs it reports it
      }
    }
    if (const auto count = std::ssize(images); count > 0)
      truth.notes.push_back(fmt::format(
          "{} in {} {} not listed and {} left out, for example {}", count_of(count, "image", "images"),
          paths.images, count == 1 ? "is" : "are", count == 1 ? "is" : "are", images.front()));
  } catch (const InputError&) {  // an unreadable folder contains nothing to report
  }
}

}  // namespace saccade
