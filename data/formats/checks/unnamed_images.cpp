#include "data/formats/checks/unnamed_images.h"

#include <filesystem>
#include <unordered_set>

#include "core/tensor/error.h"
#include "data/formats/listing.h"

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

}  // namespace

void note_unnamed_images(GroundTruth& truth, const DataPaths& paths,
                         GroundTruth (*read)(const DataPaths& paths, const ProblemReport& report),
                         double seconds) {
  if (truth.names_all_images || !is_folder(paths.images)) return;
  try {
    FolderListing listing = list_tree(paths.images, seconds);
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
