#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/coco.h"
#include "data/images/image.h"

namespace saccade {
namespace {

// Annotations are often rounded; a box may pass the border by this much.
constexpr double kBorderPixels = 0.5;

void check_boxes(const GroundTruth& file, const ProblemReport& report) {
  std::unordered_map<int64_t, const ImageInfo*> images;
  for (const ImageInfo& image : file.images) images.emplace(image.id, &image);
  for (const Annotation& a : file.annotations) {
    auto [x, y, w, h] = a.bbox;
    auto it = images.find(a.image_id);
    std::string where = fmt::format("annotation {} (image {})", a.id, a.image_id);
    if (w <= 0 || h <= 0) {
      report(fmt::format("{}: the box [{}, {}, {}, {}] has {} size", where, x, y, w, h,
                         w < 0 || h < 0 ? "a negative" : "no"));
    } else if (it != images.end()) {
      double width = static_cast<double>(it->second->width), height = static_cast<double>(it->second->height);
      if (x < -kBorderPixels || y < -kBorderPixels || x + w > width + kBorderPixels ||
          y + h > height + kBorderPixels) {
        report(fmt::format("{}: the box [{}, {}, {}, {}] reaches outside the image of {} x {} pixels", where,
                           x, y, w, h, width, height));
      }
    }
    if (a.area < 0) report(fmt::format("{}: the area {} is negative", where, a.area));
  }
}

std::string check_image(const ImageInfo& image, const std::string& images_dir) {
  std::string path = (std::filesystem::path(images_dir) / image.file_name).string();
  try {
    Image pixels = read_image(path);
    if (pixels.width == image.width && pixels.height == image.height) return "";
    return fmt::format("image {}: {} has {} x {} pixels, the annotations say {} x {}", image.id, path,
                       pixels.width, pixels.height, image.width, image.height);
  } catch (const InputError& e) {
    return fmt::format("image {}: {}", image.id, e.what());
  }
}

}  // namespace

std::vector<std::string> check_coco(const std::string& annotations_path, const std::string& images_dir,
                                    int threads) {
  std::vector<std::string> problems;
  ProblemReport report = [&](const std::string& problem) {
    problems.push_back(fmt::format("{}: {}", annotations_path, problem));
  };
  GroundTruth file;
  try {
    file = read_coco(annotations_path, report);
  } catch (const InputError& e) {
    problems.push_back(e.what());
    return problems;
  }
  if (file.images.empty()) report("the list of images is empty");
  if (file.categories.empty()) report("the list of categories is empty");
  check_ids(file, report);
  check_boxes(file, report);
  if (images_dir.empty()) return problems;
  std::error_code error;
  if (!std::filesystem::is_directory(images_dir, error)) {
    problems.push_back(fmt::format("{}: no such folder of images", images_dir));
    return problems;
  }
  std::vector<std::string> found(file.images.size());
  run_tasks(static_cast<int64_t>(file.images.size()), threads, [&](int64_t i) {
    found[static_cast<size_t>(i)] = check_image(file.images[static_cast<size_t>(i)], images_dir);
  });
  for (std::string& problem : found) {
    if (!problem.empty()) report(problem);
  }
  return problems;
}

}  // namespace saccade
