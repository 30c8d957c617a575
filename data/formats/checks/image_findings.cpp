#include "data/formats/checks/image_findings.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/checks/image_check.h"
#include "data/formats/listing.h"
#include "data/images/image.h"
#include "data/images/orientation.h"

namespace saccade {
namespace {

ImageFinding check_image(const ImageInfo& image, const std::string& path,
                         const std::optional<NamedFolder>& folder) {
  if (folder)
    if (std::string refusal = folder->refusal(image.file_name); !refusal.empty())
      return {"outside", fmt::format("{}: {}", path, refusal)};
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {"missing", path + ": no such file", 1, true};
  ImageFinding found;
  try {
    const std::vector<uint8_t> bytes = read_file(path, kImageFile);
    const ImageInspection seen = inspect_image(bytes, path);
    found.orientation = seen.orientation;
    found.has_more = seen.has_more;
    std::string damage;
    const Image pixels = decode_image(bytes, path, nullptr, &damage);
    const ImageSize shown{pixels.height, pixels.width}, said{image.height, image.width};
    found.size = shown;
    if (!damage.empty()) {
      found.kind = "damage";
      found.problem = fmt::format("{}: {}", path, damage);
      return found;
    }
    if (shown == said || said.width <= 0) return found;
    found.kind = "size";
    found.problem = fmt::format("{} has {} x {} pixels, the annotations say {} x {}", path, shown.width,
                                shown.height, said.width, said.height);
    if (found.orientation > 4 && turned(shown, found.orientation) == said) {
      found.kind = "turned";
      found.problem += fmt::format(
          ": that is the size as stored, but EXIF orientation {} rotates the picture", found.orientation);
    }
  } catch (const InputError& e) {
    found.kind = std::string(e.what()).substr(std::min(path.size(), std::string(e.what()).size()));
    found.problem = e.what();
  }
  return found;
}

}  // namespace

std::vector<ImageFinding> inspect_images(const GroundTruth& file, const DataPaths& paths, int threads) {
  if (!is_folder(paths.images)) return {};
  std::optional<NamedFolder> folder;
  if (!paths.allow_outside) folder.emplace(paths.images, file.links);
  std::vector<ImageFinding> found(file.images.size());
  run_tasks(static_cast<int64_t>(file.images.size()), threads, [&](int64_t i) {
    const ImageInfo& image = file.images[static_cast<size_t>(i)];
    found[static_cast<size_t>(i)] = check_image(image, joined(paths.images, image.file_name), folder);
  });
  return found;
}

void tell_of_images(const std::vector<ImageFinding>& found, const GroundTruth& file, const DataPaths& paths,
                    DatasetReport& report) {
  if (!is_folder(paths.images))
    return report.problems.add(fmt::format("{}: no such folder of images", paths.images));
  auto missing = [](const ImageFinding& f) { return f.is_missing; };
  if (found.size() > 1 && std::all_of(found.begin(), found.end(), missing)) {
    report.problems.add(fmt::format("{}: none of the {} images is in the folder {} (the first is \"{}\")",
                                    paths.annotations, found.size(), paths.images, file.images[0].file_name));
    return;
  }
  int64_t turned_images = 0, several = 0;
  std::string first_of_several;
  for (size_t i = 0; i < found.size(); ++i) {
    const ImageFinding& f = found[i];
    turned_images += f.orientation > 1;
    if (f.has_more && ++several == 1) first_of_several = joined(paths.images, file.images[i].file_name);
    if (!f.problem.empty())
      report.problems.add(f.kind,
                          fmt::format("{}: {}", file.where(file.images[i], paths.annotations), f.problem));
  }
  if (turned_images > 0)
    report.summary.push_back(count_of(turned_images, "image is", "images are") +
                             " rotated by the EXIF orientation; boxes refer to the rotated picture");
  if (several > 0) report.remarks.push_back(note_on_several_pictures(several, first_of_several));
}

}  // namespace saccade
