#include "data/formats/coco_dataset.h"

#include <algorithm>
#include <filesystem>

#include "core/tensor/error.h"

namespace saccade {

CocoDataset CocoDataset::load(const std::string& annotations_path, const std::string& images_dir,
                              LabelScheme labels) {
  CocoReport report = [&](const std::string& problem) { fail_input("{}: {}", annotations_path, problem); };
  CocoFile file = read_coco(annotations_path, report);
  if (file.images.empty()) fail_input("{}: the list of images is empty", annotations_path);
  if (file.categories.empty()) fail_input("{}: the list of categories is empty", annotations_path);
  check_coco_ids(file, report);

  CocoDataset set;
  set.annotations_path_ = annotations_path;
  set.images_dir_ = images_dir;
  set.images_ = std::move(file.images);
  std::sort(set.images_.begin(), set.images_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  std::sort(file.categories.begin(), file.categories.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  constexpr int64_t kGreatestLabel = 65535;
  for (const CocoCategory& category : file.categories) {
    if (labels == LabelScheme::kCategoryId) {
      if (category.id < 0 || category.id > kGreatestLabel)
        fail_input("{}: category {}: as a label (data.labels: category_id) expected an id from 0 to {}",
                   annotations_path, category.id, kGreatestLabel);
      for (int64_t gap = set.num_classes(); gap < category.id; ++gap) {
        set.category_ids_.push_back(gap);
        set.class_names_.emplace_back(kNoCategory);
      }
    }
    set.category_ids_.push_back(category.id);
    set.class_names_.push_back(category.name);
  }
  set.categories_ = std::move(file.categories);

  set.annotations_ = std::move(file.annotations);
  std::stable_sort(set.annotations_.begin(), set.annotations_.end(),
                   [](const auto& a, const auto& b) { return a.image_id < b.image_id; });
  size_t next = 0;
  for (const CocoImage& image : set.images_) {
    set.begin_.push_back(next);
    for (; next < set.annotations_.size() && set.annotations_[next].image_id == image.id; ++next) {
      const CocoAnnotation& a = set.annotations_[next];
      auto [x, y, w, h] = a.bbox;
      double width = static_cast<double>(image.width), height = static_cast<double>(image.height);
      bool has_area = std::clamp(x + w, 0.0, width) > std::clamp(x, 0.0, width) &&
                      std::clamp(y + h, 0.0, height) > std::clamp(y, 0.0, height);
      if (!a.iscrowd && !has_area) ++set.empty_boxes_;
    }
  }
  set.begin_.push_back(next);

  if (!images_dir.empty()) {
    std::error_code error;
    if (!std::filesystem::is_directory(images_dir, error))
      fail_input("{}: no such folder of images", images_dir);
    for (int64_t i = 0; i < set.num_images(); ++i) {
      if (!std::filesystem::is_regular_file(set.image_path(i), error)) {
        fail_input("{}: no such file (image {} of {})", set.image_path(i), set.image(i).id, annotations_path);
      }
    }
  }
  return set;
}

std::string CocoDataset::image_path(int64_t index) const {
  return (std::filesystem::path(images_dir_) / image(index).file_name).string();
}

std::span<const CocoAnnotation> CocoDataset::annotations_of(int64_t index) const {
  size_t i = static_cast<size_t>(index), begin = begin_.at(i);
  return std::span<const CocoAnnotation>(annotations_).subspan(begin, begin_.at(i + 1) - begin);
}

int64_t CocoDataset::class_of(int64_t category_id) const {
  bool known = std::any_of(categories_.begin(), categories_.end(),
                           [&](const CocoCategory& c) { return c.id == category_id; });
  SACCADE_CHECK(known, "[coco_dataset] unknown category {}", category_id);
  return std::lower_bound(category_ids_.begin(), category_ids_.end(), category_id) - category_ids_.begin();
}

Sample CocoDataset::make_sample(int64_t index, Image image) const {
  Sample sample;
  double width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  for (const CocoAnnotation& a : annotations_of(index)) {
    if (a.iscrowd) continue;
    SampleBox box;
    box.x1 = std::clamp(a.bbox[0], 0.0, width);
    box.y1 = std::clamp(a.bbox[1], 0.0, height);
    box.x2 = std::clamp(a.bbox[0] + a.bbox[2], 0.0, width);
    box.y2 = std::clamp(a.bbox[1] + a.bbox[3], 0.0, height);
    if (box.x2 <= box.x1 || box.y2 <= box.y1) continue;
    box.label = class_of(a.category_id);
    box.area = a.area;
    sample.boxes.push_back(box);
  }
  sample.image = std::move(image);
  return sample;
}

}  // namespace saccade
