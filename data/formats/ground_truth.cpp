#include "data/formats/ground_truth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace saccade {
namespace {

// Reports every id that is not the first of its kind; returns all ids, sorted.
template <class T>
std::vector<int64_t> unique_ids(const std::vector<T>& items, const std::string& kind,
                                const ProblemReport& report) {
  std::vector<int64_t> ids;
  ids.reserve(items.size());
  for (const T& item : items) ids.push_back(item.id);
  std::sort(ids.begin(), ids.end());
  for (size_t i = 1; i < ids.size(); ++i) {
    bool first_repeat = ids[i] == ids[i - 1] && (i < 2 || ids[i - 2] != ids[i]);
    if (first_repeat) {
      auto range = std::equal_range(ids.begin(), ids.end(), ids[i]);
      report(fmt::format("{} {}: the id is used {} times", kind, ids[i], range.second - range.first));
    }
  }
  return ids;
}

}  // namespace

Place GroundTruth::add_file(std::string path, const char* unit) {
  files.push_back({std::move(path), unit});
  return {.file = static_cast<uint32_t>(files.size())};
}

std::string GroundTruth::text_of(const Place& place) const {
  if (place.file == 0) return "";
  const SourceFile& file = files.at(place.file - 1);
  return place.number == 0 ? file.path : fmt::format("{}: {} {}", file.path, file.unit, place.number);
}

std::string GroundTruth::name_of(const ImageInfo& image) const {
  return image.place.file > 0 ? text_of(image.place) : fmt::format("image {}", image.id);
}

std::string GroundTruth::name_of(const Annotation& annotation) const {
  return annotation.place.file > 0 ? text_of(annotation.place) : fmt::format("annotation {}", annotation.id);
}

std::string GroundTruth::where(const ImageInfo& image, const std::string& list) const {
  return image.place.file > 0 ? text_of(image.place) : fmt::format("{}: {}", list, name_of(image));
}

std::string GroundTruth::where(const Annotation& annotation, const std::string& list, bool with_image) const {
  if (annotation.place.file > 0) return text_of(annotation.place);
  const std::string image = with_image ? fmt::format(" (image {})", annotation.image_id) : "";
  return fmt::format("{}: {}{}", list, name_of(annotation), image);
}

std::unordered_map<int64_t, const ImageInfo*> GroundTruth::images_by_id() const {
  std::unordered_map<int64_t, const ImageInfo*> by_id;
  for (const ImageInfo& image : images) by_id.emplace(image.id, &image);
  return by_id;
}

bool is_faulty_image(const GroundTruth& truth, int64_t id) { return truth.faulty_images.contains(id); }

bool is_faulty_category(const GroundTruth& truth, int64_t id) { return truth.faulty_categories.contains(id); }

std::string unknown_image(const GroundTruth& truth, int64_t id, const std::string& name) {
  return is_faulty_image(truth, id)
             ? fmt::format("image_id {}: this image is left out because its record has a fault", name)
             : fmt::format("image_id {} is not in \"images\"", name);
}

std::string unknown_category(const GroundTruth& truth, int64_t id, const std::string& name) {
  return is_faulty_category(truth, id)
             ? fmt::format("category_id {}: this category is left out because its record has a fault", name)
             : fmt::format("category_id {} is not in \"categories\"", name);
}

void check_ids(const GroundTruth& truth, const std::string& name, const ProblemReport& report) {
  std::vector<int64_t> categories = unique_ids(truth.categories, name + ": category", report);
  std::vector<int64_t> images = unique_ids(truth.images, name + ": image", report);
  unique_ids(truth.annotations, name + ": annotation", report);
  const auto report_of = [&](const Annotation& a, const std::string& what) {
    report(fmt::format("{}: {}", truth.where(a, name), what));
  };
  for (const Annotation& a : truth.annotations) {
    if (!std::binary_search(images.begin(), images.end(), a.image_id))
      report_of(a, unknown_image(truth, a.image_id, std::to_string(a.image_id)));
    if (!std::binary_search(categories.begin(), categories.end(), a.category_id))
      report_of(a, unknown_category(truth, a.category_id, std::to_string(a.category_id)));
    const auto& [x, y, w, h] = a.bbox;
    if (!std::isfinite(x + w) || !std::isfinite(y + h) || !std::isfinite(w * h) || !std::isfinite(a.area))
      report_of(
          a, fmt::format("the box [{}, {}, {}, {}] or its area is too large for a 64-bit float", x, y, w, h));
  }
}

bool take_known_categories(GroundTruth& truth, const std::vector<Category>& known) {
  if (truth.categories.size() >= known.size() || truth.left_out.categories > 0) return false;
  std::map<int64_t, std::string> names;
  for (const Category& c : known) names.emplace(c.id, c.name);
  for (const Category& c : truth.categories)
    if (const auto it = names.find(c.id); it == names.end() || it->second != c.name) return false;
  truth.categories = known;
  return true;
}

}  // namespace saccade
