#include "data/formats/checks/image_check.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/images/image.h"
#include "data/images/orientation.h"

namespace saccade {
namespace {

struct FileFinding {
  std::string text;
  bool is_outside = false;
  bool is_turned = false;  // and its size in the list is that before the rotation
  ImageSize size = {};     // if it differs from the list
  ImageSize seen = {};
  bool is_unseen = false;  // there was no time
  bool has_more = false;   // further pictures in the file
};

// Opens every file.
std::vector<FileFinding> find_in_files(const Dataset& images, const DataPaths& paths, double seconds) {
  const int64_t count = images.num_images();
  std::optional<NamedFolder> folder;
  if (!paths.allow_outside) folder.emplace(paths.images, images.ground_truth().links);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  // Without a size, no mask can be compared.
  auto needs_size = [&](int64_t i) {
    return images.size_of(i).width <= 0 &&
           std::ranges::any_of(images.annotations_of(i),
                               [](const Annotation& a) { return a.segmentation != nullptr; });
  };
  auto check = [&](int64_t i) {
    const std::string path = images.image_path(i);
    if (folder)
      if (const std::string refusal = folder->refusal(images.file_name(i)); !refusal.empty())
        return FileFinding{fmt::format("{}: {}", escaped(path), refusal), true};  // a zero byte would end it
    std::error_code missing;
    if (!std::filesystem::exists(path, missing)) return FileFinding{path + ": no such file"};
    if (std::chrono::steady_clock::now() > end && !needs_size(i)) return FileFinding{.is_unseen = true};
    try {
      const ImageInspection seen = check_image_file(path);
      const ImageSize said = images.size_of(i);
      if (seen.size == said || seen.size == ImageSize() || said.width <= 0)
        return FileFinding{.seen = seen.size, .has_more = seen.has_more};
      const bool is_turned = seen.orientation > 4 && said == turned(seen.size, seen.orientation);
      return FileFinding{.is_turned = is_turned,
                         .size = is_turned ? ImageSize() : seen.size,
                         .seen = seen.size,
                         .has_more = seen.has_more};
    } catch (const InputError& e) {
      return FileFinding{e.what()};
    }
  };
  std::vector<FileFinding> found(static_cast<size_t>(count));
  // This mostly waits for the disk, so more threads than cores help.
  run_tasks(count, static_cast<int>(std::clamp<int64_t>(count / 64, 1, 16)),
            [&](int64_t i) { found[static_cast<size_t>(i)] = check(i); });
  return found;
}

std::vector<std::string> notes_on(const std::vector<FileFinding>& found, const Dataset& images,
                                  double seconds) {
  std::vector<std::string> notes;
  const int64_t count = images.num_images();
  auto is_turned = [](const FileFinding& p) { return p.is_turned; };
  if (const auto count_turned = std::ranges::count_if(found, is_turned); count_turned > 0)
    notes.push_back(fmt::format(
        "warning: {}: {} rotated by an EXIF orientation but listed with the size as stored, for example {}; do the "
        "boxes refer to that size, too? saccade data check names all",
        images.name(), count_of(count_turned, "image is", "images are"),
        images.image_path(std::ranges::find_if(found, is_turned) - found.begin())));
  auto has_other_size = [](const FileFinding& p) { return p.size.width > 0; };
  if (const auto others = std::ranges::count_if(found, has_other_size); others > 0) {
    const auto first = std::ranges::find_if(found, has_other_size);
    const int64_t i = first - found.begin();
    const ImageSize said = images.size_of(i);
    notes.push_back(fmt::format(
        "warning: {}: {} another size than listed, for example {}, which has {} x {} pixels, not {} x {}; do the "
        "boxes fit the listed size? saccade data check names all",
        images.name(), count_among(others, count, "images", "has", "have"), images.image_path(i),
        first->size.width, first->size.height, said.width, said.height));
  }
  if (const auto unseen = std::ranges::count_if(found, [](const FileFinding& p) { return p.is_unseen; });
      unseen > 0)
    notes.push_back(fmt::format(
        "note: {}: {} not examined, because examining all takes more than {} seconds; saccade data check examines all",
        images.name(), count_among(unseen, count, "images", "was", "were"), seconds));
  auto has_more = [](const FileFinding& p) { return p.has_more; };
  if (const auto several = std::ranges::count_if(found, has_more); several > 0)
    notes.push_back(
        fmt::format("note: {}: {}", images.name(),
                    note_on_several_pictures(
                        several, images.image_path(std::ranges::find_if(found, has_more) - found.begin()))));
  return notes;
}

}  // namespace

std::string note_on_several_pictures(int64_t files, const std::string& first) {
  return fmt::format(
      "{} more than one picture (frames of a GIF or PNG, pages of a TIFF), of which only the first is read, for example {}",
      count_of(files, "file holds", "files hold"), first);
}

ImageCheck check_image_files(const Dataset& images, const DataPaths& paths, double seconds) {
  std::error_code error;
  if (!std::filesystem::is_directory(paths.images, error))
    fail_input("{}: no such folder of images", paths.images);
  const int64_t count = images.num_images();
  const std::vector<FileFinding> found = find_in_files(images, paths, seconds);
  ImageCheck out{.notes = notes_on(found, images, seconds), .sizes = {}};
  for (const FileFinding& p : found) out.sizes.push_back(p.seen);
  auto is_bad = [](const FileFinding& p) { return !p.text.empty(); };
  auto describe = [&](const FileFinding& p) {
    const std::string place = images.place_of(&p - found.data());
    return place.empty() ? p.text : fmt::format("{} ({})", p.text, place);
  };
  const auto bad = std::count_if(found.begin(), found.end(), is_bad);
  if (bad == 0) return out;
  auto worst = std::find_if(found.begin(), found.end(), [](const FileFinding& p) { return p.is_outside; });
  if (worst != found.end())
    fail_input("{}; --allow-outside or data.allow_outside allows it", describe(*worst));
  worst = std::find_if(found.begin(), found.end(), is_bad);
  if (!paths.skip_bad_images || bad == count)
    fail_input("{}{}", describe(*worst),
               bad == 1 ? std::string() : fmt::format("; {} of the {} images cannot be read", bad, count));
  out.notes.push_back(fmt::format(
      "{}: {} skipped (data.bad_images: skip), for example {}", images.name(),
      count_among(bad, count, "images", "cannot be read and is", "cannot be read and are"), worst->text));
  return out;
}

}  // namespace saccade
