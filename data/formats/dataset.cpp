#include "data/formats/dataset.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/tensor/error.h"
#include "data/formats/label_maps/label_values.h"

namespace saccade {
namespace {

auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };

// Returns the part inside the image; nothing if the box has no area there.
std::optional<Instance> instance_of(const Annotation& a, ImageSize image) {
  const Box box = cut(box_of_corner(a.bbox), image);
  if (box.x2 > box.x1 && box.y2 > box.y1) return Instance{.box = box, .area = a.area};
  return std::nullopt;
}

}  // namespace

Dataset::Dataset(std::string name, std::string images_dir, GroundTruth truth, LabelScheme labels)
    : name_(std::move(name)), images_dir_(std::move(images_dir)), truth_(std::move(truth)) {
  if (truth_.images.empty()) fail_input("{}: the list of images is empty", name_);
  if (truth_.categories.empty()) fail_input("{}: the list of categories is empty", name_);
  check_ids(truth_, name_, [](const std::string& problem) { fail_input("{}", problem); });
  if (!std::ranges::is_sorted(truth_.images, by_id)) std::ranges::sort(truth_.images, by_id);
  std::ranges::sort(truth_.categories, by_id);
  number_classes(labels);

  std::ranges::stable_sort(truth_.annotations,
                           [](const auto& a, const auto& b) { return a.image_id < b.image_id; });
  size_t next = 0;
  for (const ImageInfo& image : truth_.images) {
    begin_.push_back(next);
    while (next < truth_.annotations.size() && truth_.annotations[next].image_id == image.id) ++next;
  }
  begin_.push_back(next);
}

void Dataset::number_classes(LabelScheme labels) {
  constexpr int64_t kMaxLabel = 65535;
  for (const Category& category : truth_.categories) {
    if (labels == LabelScheme::kCategoryId) {
      if (category.id < 0 || category.id > kMaxLabel)
        fail_input(
            "{}: category {}: expected an id from 0 to {} (data.labels: category_id makes it the label)",
            name_, category.id, kMaxLabel);
      for (int64_t gap = num_classes(); gap < category.id; ++gap) {
        category_ids_.push_back(gap);
        class_names_.emplace_back(kNoCategory);
      }
    }
    category_ids_.push_back(category.id);
    class_names_.push_back(category.name);
  }
}

std::string Dataset::image_path(int64_t index) const {
  return (std::filesystem::path(images_dir_) / file_name(index)).string();
}

std::string Dataset::place_of(int64_t index) const {
  const ImageInfo& i = image(index);
  if (i.category_id) return "";
  return i.place.file > 0 ? truth_.text_of(i.place) : fmt::format("image {} of {}", i.id, name_);
}

std::span<const Annotation> Dataset::annotations_of(int64_t index) const {
  size_t i = static_cast<size_t>(index), begin = begin_.at(i);
  return std::span<const Annotation>(truth_.annotations).subspan(begin, begin_.at(i + 1) - begin);
}

int64_t Dataset::class_of(int64_t category_id) const {
  const std::vector<Category>& known = truth_.categories;
  auto it = std::ranges::lower_bound(known, Category{category_id, ""}, by_id);
  SACCADE_CHECK(it != known.end() && it->id == category_id, "[dataset] unknown category {}", category_id);
  return std::ranges::lower_bound(category_ids_, category_id) - category_ids_.begin();
}

std::vector<int64_t> Dataset::labels_of(int64_t index) const {
  if (const auto& own = image(index).category_id) return {class_of(*own)};
  std::vector<int64_t> labels;
  for (const Annotation& a : annotations_of(index))
    if (!a.iscrowd) labels.push_back(class_of(a.category_id));
  return labels;
}

Sample Dataset::make_sample(int64_t index, Image image) const {
  Sample sample;
  const ImageSize size{image.height, image.width};
  if (const auto& own = this->image(index).category_id) sample.label = class_of(*own);
  for (const Annotation& a : annotations_of(index)) {
    if (a.iscrowd) continue;
    auto instance = instance_of(a, size);
    if (!instance) continue;
    instance->label = class_of(a.category_id);
    try {
      if (a.segmentation)
        if (Mask mask = a.segmentation->mask(size); mask.area() > 0)  // else only its box is known
          instance->mask = std::make_shared<const Mask>(std::move(mask));
    } catch (const InputError& e) {
      fail_input("{}: {}", truth_.where(a, name_), e.what());
    }
    sample.instances.push_back(std::move(*instance));
  }
  sample.label_map = label_map_of(index, size);
  sample.image = std::move(image);
  return sample;
}

LabelMap Dataset::label_map_of(int64_t index, ImageSize size) const {
  const ImageInfo& info = image(index);
  const auto label_of = [&](int64_t category) { return class_of(category); };
  if (!info.label_file.empty()) return read_label_map(info.label_file, size, *info.label_values, label_of);
  if (!truth_.drawn_labels) return {};
  const auto& background = truth_.drawn_labels->background;
  return draw_label_map(annotations_of(index), size,
                        background ? static_cast<uint16_t>(class_of(*background)) : LabelMap::kIgnored,
                        label_of, [&](const Annotation& a) { return truth_.where(a, name_); });
}

}  // namespace saccade
