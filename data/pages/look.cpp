#include <filesystem>

#include "core/files/checksum.h"
#include "core/files/file.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/images/resize.h"
#include "data/pages/split.h"

namespace saccade {
namespace {

uint8_t brightness(const uint8_t* p) {
  return static_cast<uint8_t>((299 * p[0] + 587 * p[1] + 114 * p[2] + 500) / 1000);
}

void describe_pixels(const Image& image, ImageLook& look) {
  const Image fields = resize_image(image, 16, 16);
  for (size_t i = 0; i < look.fields.size(); ++i) look.fields[i] = brightness(fields.rgb.data() + 3 * i);
  const Image steps = resize_image(image, 8, 9);
  for (int64_t y = 0; y < 8; ++y)
    for (int64_t x = 0; x < 8; ++x)
      look.hash = look.hash << 1 |
                  (brightness(steps.row(y) + 3 * x) > brightness(steps.row(y) + 3 * (x + 1)) ? 1u : 0u);
}

ImageLook look_at(const std::string& path) {
  ImageLook look;
  const std::vector<uint8_t> bytes = read_file(path, kImageFile);
  look.checksum = checksum(bytes.data(), bytes.size());
  look.size = inspect_image(bytes, path).size;
  std::string damage;
  describe_pixels(decode_small_image(bytes, path, 64, &damage), look);
  if (!damage.empty()) look.damage = path + ": " + damage;
  look.is_looked_at = true;
  return look;
}

}  // namespace

std::optional<std::string> path_of(const ReportedSplit& split, size_t image) {
  const std::string& name = split.truth.images[image].file_name;
  if (split.paths.images.empty()) return std::nullopt;
  if (!split.paths.allow_outside && !NamedFolder(split.paths.images, split.truth.links).refusal(name).empty())
    return std::nullopt;
  return (std::filesystem::path(split.paths.images) / name).string();
}

std::optional<Image> open_picture(const ReportedSplit& split, size_t image) {
  const std::optional<std::string> path = path_of(split, image);
  if (!path) return std::nullopt;
  try {
    return read_image(*path);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

ImageLooks look_at_images(std::vector<ReportedSplit>& splits, int64_t most,
                          const std::function<void()>& progress) {
  std::vector<ImagePlace> all;
  ImageLooks looks(splits.size());
  for (size_t s = 0; s < splits.size(); ++s) {
    looks[s].resize(splits[s].truth.images.size());
    for (size_t i = 0; i < looks[s].size(); ++i) all.push_back({s, i});
  }
  const auto count = std::ssize(all);
  run_tasks(count, 0, [&](int64_t k) {
    const ImagePlace& place = all[static_cast<size_t>(k)];
    ReportedSplit& split = splits[place.split];
    ImageInfo& info = split.truth.images[place.image];
    ImageLook& look = looks[place.split][place.image];
    const bool is_chosen = count <= most || k * most / count != (k + 1) * most / count;
    if (is_chosen || info.width <= 0) {
      const std::optional<std::string> path = path_of(split, place.image);
      try {
        if (!path) fail_input("{}: is outside the folder {}", info.file_name, split.paths.images);
        if (is_chosen)
          look = look_at(*path);
        else
          look.size = image_size(*path);
      } catch (const InputError& e) {
        look = {};
        look.problem = e.what();
      }
    }
    if (info.width <= 0) {
      info.width = look.size.width;
      info.height = look.size.height;
    }
    progress();
  });
  return looks;
}

}  // namespace saccade
