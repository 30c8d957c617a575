#include "data/formats/checks/unnamed_images.h"

#include <filesystem>
#include <set>
#include <unordered_set>

#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/formats/coco/coco.h"
#include "data/formats/listing.h"
#include "data/images/image.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Names below the folder, also of those that are absolute or lead out of it and in again.
void add_names(const GroundTruth& truth, const std::string& folder, std::unordered_set<std::string>& names) {
  std::error_code error;
  const fs::path root = fs::absolute(folder, error).lexically_normal();
  for (const ImageInfo& image : truth.images) {
    const fs::path name(image.file_name);
    const bool is_plain = !name.is_absolute() && image.file_name.find("..") == std::string::npos;
    names.insert(is_plain ? name.lexically_normal().string()
                          : (root / name).lexically_normal().lexically_relative(root).string());
  }
}

bool is_written_list(const std::string& file) {
  return is_file(file) && head_of(file, kJsonFile, kWrittenList.size()) == kWrittenList;
}

// What lies in the folders of the images that are named: a list of several sets may be relative to one that
// holds anything.
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
          fmt::format("{} holds too much to look for images that are not named here within {} seconds",
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
      there.wants = {.boxes = false};  // but the names
      try {
        leave_unnamed(read(there, [](const std::string&) {}));
      } catch (const InputError&) {  // whoever needs it tells
      }
    }
    if (const auto count = std::ssize(images); count > 0)
      truth.notes.push_back(
          fmt::format("{} in {} {} not named and {} left out, first {}", count_of(count, "image", "images"),
                      paths.images, count == 1 ? "is" : "are", count == 1 ? "is" : "are", images.front()));
  } catch (const InputError&) {  // a folder that cannot be read holds nothing that is asked for
  }
}

}  // namespace saccade
