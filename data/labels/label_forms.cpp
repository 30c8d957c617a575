#include "data/labels/label_forms.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "core/files/text.h"

namespace saccade {

std::vector<std::string> readable_forms() {
  std::vector<std::string> names;
  for (const auto& [name, form] : label_forms().all())
    if (form.is_read) names.push_back(name);
  return names;
}

std::vector<std::vector<const Annotation*>> annotations_by_image(const GroundTruth& truth) {
  std::unordered_map<int64_t, size_t> places;
  for (size_t i = 0; i < truth.images.size(); ++i) places.emplace(truth.images[i].id, i);
  std::vector<std::vector<const Annotation*>> out(truth.images.size());
  for (const Annotation& a : truth.annotations) out.at(places.at(a.image_id)).push_back(&a);
  return out;
}

std::string label_name(const ImageInfo& image, const std::string& ending) {
  return std::filesystem::path(image.file_name)
      .relative_path()
      .lexically_normal()
      .replace_extension(ending)
      .string();
}

void check_label_names(const GroundTruth& truth, const std::string& ending, const std::string& form) {
  std::map<std::string, const ImageInfo*> seen;
  for (const ImageInfo& image : truth.images) {
    const std::string name = label_name(image, ending);
    if (name.starts_with(".."))
      fail_input("{}: leads out of the folder of images, so there is no place for its labels as {}",
                 image.file_name, form);
    if (const auto [it, is_new] = seen.emplace(name, &image); !is_new)
      fail_input("{} and {}: would share the {} label file {}", it->second->file_name, image.file_name, form,
                 name);
  }
}

const std::string& category_name(const GroundTruth& truth, int64_t id) {
  for (const Category& category : truth.categories)
    if (category.id == id) return category.name;
  fail("[category_name] no category {}", id);
}

int64_t own_areas(const LabelList& list, bool of_masks) {
  constexpr double kRoundedPixels = 1;  // areas are often whole numbers
  return std::ranges::count_if(list.truth.annotations, [&](const Annotation& a) {
    return (!a.segmentation || of_masks) && !a.iscrowd && a.area > 0 &&
           std::abs(a.area - a.bbox[2] * a.bbox[3]) >= kRoundedPixels;
  });
}

int64_t crowds_of(const LabelList& list) {
  return std::ranges::count_if(list.truth.annotations, &Annotation::iscrowd);
}

void note_left_out(LabelFiles& files, const LabelList& list, std::initializer_list<LeftOut> counts) {
  for (const auto& [count, one, many, what] : counts)
    if (count > 0)
      files.notes.push_back(fmt::format("{}{}{} {}", list.split, list.split.empty() ? "" : ": ",
                                        count_of(count, one, many), what));
}

}  // namespace saccade
