#include "data/formats/checks/dataset_fix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "core/files/text.h"
#include "data/formats/checks/units.h"

namespace saccade {
namespace {

// Counts of what was left out or changed.
struct Changes {
  int64_t faulty_images = 0, unclear_images = 0, bad_images = 0, joined_images = 0, faulty_categories = 0;
  int64_t boxes_of_images = 0;  // of images that were left out
  int64_t of_unknown_image = 0, doubles = 0, renumbered = 0, cut = 0;
  int64_t masks = 0;
  // Boxes that are left out of images that stay, and those images that have objects among them.
  struct Boxes {
    int64_t count = 0;
    std::unordered_set<int64_t> images = {};
    void add(const Annotation& a) {
      ++count;
      if (!a.iscrowd) images.insert(a.image_id);
    }
    std::string fate() const {
      if (images.empty()) return " left out";
      if (count == 1) return " left out; its object becomes background";
      return " left out; their objects become background in " +
             count_of(std::ssize(images), "image", "images");
    }
  };
  Boxes of_faulty_category, of_unknown_category, without_size;
  std::string unclear = {};  // an example
};

void tell(const Changes& c, std::vector<std::string>& told) {
  auto add = [&](int64_t count, const char* one, const char* many, const std::string& what) {
    if (count > 0) told.push_back(count_of(count, one, many) + what);
  };
  add(c.faulty_images, "image is left out because its record has",
      "images are left out because their records have", " a fault");
  add(c.unclear_images, "image is", "images are",
      fmt::format(" left out: {}, so their boxes are ambiguous", c.unclear));
  add(c.bad_images, "image with a problem is", "images with a problem are", " left out");
  add(c.joined_images, "image is", "images are", " merged into another with the same file");
  add(c.boxes_of_images, "box of these images is", "boxes of these images are", " left out");
  add(c.of_unknown_image, "box of an unknown image is", "boxes of unknown images are", " left out");
  add(c.faulty_categories, "category is left out because its record has",
      "categories are left out because their records have", " a fault");
  add(c.of_faulty_category.count, "box of such a category is", "boxes of such categories are",
      c.of_faulty_category.fate());
  add(c.of_unknown_category.count, "box of an unknown category is", "boxes of unknown categories are",
      c.of_unknown_category.fate());
  add(c.without_size.count, "box without area inside its image is",
      "boxes without area inside their image are", c.without_size.fate());
  add(c.doubles, "box appears twice and is kept", "boxes appear twice and are kept", " once");
  add(c.renumbered, "box whose id is used twice gets", "boxes whose id is used twice get", " a new id");
  add(c.cut, "box is cut to its", "boxes are cut to their", " image");
  add(c.masks, "mask with a fault is left out; its object keeps",
      "masks with a fault are left out; their objects keep", " the box");
}

// Returns the ids that name several files.
std::unordered_set<int64_t> unclear_ids(const std::vector<ImageInfo>& images, std::string& example) {
  std::unordered_map<int64_t, std::string_view> first;
  std::unordered_set<int64_t> ids;
  for (const ImageInfo& image : images) {
    const auto [it, is_new] = first.try_emplace(image.id, image.file_name);
    if (is_new || it->second == image.file_name) continue;
    if (ids.insert(image.id).second && example.empty())
      example =
          fmt::format("the id {} belongs to \"{}\" and to \"{}\"", image.id, it->second, image.file_name);
  }
  return ids;
}

class Fixer {
 public:
  Fixer(GroundTruth file, const std::vector<SeenImage>& seen)
      : file_(std::move(file)), seen_(seen), another_(images_with_anothers_file(file_.images)) {}

  GroundTruth run(std::vector<std::string>& told) {
    left_.notes = file_.notes;
    changes_.masks = file_.faulty_masks;
    changes_.faulty_images = file_.left_out.images;
    changes_.faulty_categories = file_.left_out.categories;
    changes_.boxes_of_images = file_.left_out.boxes_of_images;
    changes_.of_unknown_image = file_.left_out.boxes_of_unknown;
    left_.files = file_.files;
    if (!keep_categories(told)) return {};
    keep_images();
    std::unordered_map<int64_t, int64_t> uses;
    for (const Annotation& a : file_.annotations) {
      ++uses[a.id];
      last_id_ = std::max(last_id_, a.id);
    }
    for (const Annotation& a : file_.annotations) keep_annotation(a, uses.at(a.id) > 1);
    tell(changes_, told);
    return std::move(left_);
  }

 private:
  bool keep_categories(std::vector<std::string>& told) {
    std::unordered_map<int64_t, std::string> names;
    for (const Category& c : file_.categories) {
      const auto [it, is_new] = names.try_emplace(c.id, c.name);
      if (is_new) {
        left_.categories.push_back(c);
      } else if (it->second != c.name) {
        told.push_back(
            fmt::format("the category id {} belongs to \"{}\" and to \"{}\", so its boxes are ambiguous",
                        c.id, it->second, c.name));
        return false;
      }
    }
    for (const auto& [id, name] : names) categories_.insert(id);
    return true;
  }

  void keep_images() {
    const std::unordered_set<int64_t> unclear = unclear_ids(file_.images, changes_.unclear);
    std::unordered_set<std::string_view> unclear_files;
    for (const ImageInfo& image : file_.images)
      if (unclear.contains(image.id)) unclear_files.insert(image.file_name);
    for (size_t i = 0; i < file_.images.size(); ++i) {
      ImageInfo& image = file_.images[i];
      left_out_.insert(image.id);  // until it is kept
      if (image.width <= 0 && !seen_.empty()) {
        image.width = seen_[i].size.width;
        image.height = seen_[i].size.height;
      }
      if (unclear_files.contains(image.file_name)) {
        ++changes_.unclear_images;
      } else if (!seen_.empty() && seen_[i].is_bad) {
        ++changes_.bad_images;
      } else if (another_.contains(image.id)) {
        joined_.insert(another_.at(image.id));
        ++changes_.joined_images;
      } else if (places_.contains(image.id)) {
        joined_.insert(image.id);
        ++changes_.joined_images;
      } else {
        places_.emplace(image.id, left_.images.size());
        left_.images.push_back(image);
      }
    }
  }

  void keep_annotation(Annotation a, bool shares_id) {
    if (const auto it = another_.find(a.image_id); it != another_.end()) a.image_id = it->second;
    const auto place = places_.find(a.image_id);
    if (place == places_.end()) {
      const bool is_left_out = left_out_.contains(a.image_id) || is_faulty_image(file_, a.image_id);
      ++(is_left_out ? changes_.boxes_of_images : changes_.of_unknown_image);
      return;
    }
    if (!categories_.contains(a.category_id)) {
      (is_faulty_category(file_, a.category_id) ? changes_.of_faulty_category : changes_.of_unknown_category)
          .add(a);
      return;
    }
    // Duplicates are recognised by their ids, unless their image itself was listed twice.
    const bool is_joined = joined_.contains(a.image_id);
    if ((is_joined || shares_id) && !known_
                                         .emplace(is_joined ? std::numeric_limits<int64_t>::min() : a.id,
                                                  a.image_id, a.category_id, a.bbox)
                                         .second) {
      ++changes_.doubles;
      return;
    }
    const ImageInfo& image = left_.images[place->second];
    if (!fits(a, static_cast<double>(image.width), static_cast<double>(image.height))) {
      changes_.without_size.add(a);
      return;
    }
    if (image.width > 0) drop_mask_of_another_size(a, {image.height, image.width});
    if (shares_id && !ids_.insert(a.id).second && last_id_ < std::numeric_limits<int64_t>::max()) {
      a.id = ++last_id_;
      ++changes_.renumbered;
    }
    left_.annotations.push_back(a);
  }

  // For images whose size only their file gives: the check of the lists could not detect this.
  void drop_mask_of_another_size(Annotation& a, ImageSize size) {
    if (!a.segmentation || !a.segmentation->polygons.empty() || a.segmentation->runs.size() == size) return;
    a.segmentation.reset();
    ++changes_.masks;
  }

  // Clips the box to the image, whose size may be unknown; returns whether anything is left of it.
  bool fits(Annotation& a, double width, double height) {
    auto& [x, y, w, h] = a.bbox;
    if (!(w > 0 && h > 0)) return false;
    if (a.area < 0) a.area = w * h;
    if (width > 0 && (x < 0 || y < 0 || x + w > width || y + h > height)) {
      const double right = std::clamp(x + w, 0.0, width), bottom = std::clamp(y + h, 0.0, height);
      x = std::clamp(x, 0.0, width);
      y = std::clamp(y, 0.0, height);
      w = right - x;
      h = bottom - y;
      a.area = std::min(a.area, std::max(w, 0.0) * std::max(h, 0.0));
      if (!(w > 0 && h > 0)) return false;
      ++changes_.cut;
    }
    return std::isfinite(x + w) && std::isfinite(y + h) && std::isfinite(a.area);
  }

  GroundTruth file_, left_;
  const std::vector<SeenImage>& seen_;
  std::unordered_map<int64_t, int64_t> another_;
  std::unordered_map<int64_t, size_t> places_;  // of the kept images
  std::unordered_set<int64_t> left_out_, joined_, categories_, ids_;
  std::set<std::tuple<int64_t, int64_t, int64_t, std::array<double, 4>>> known_;
  int64_t last_id_ = 0;
  Changes changes_;
};

}  // namespace

std::unordered_map<int64_t, int64_t> images_with_anothers_file(const std::vector<ImageInfo>& images) {
  std::unordered_map<std::string_view, int64_t> first;
  std::unordered_map<int64_t, int64_t> repeats;
  std::unordered_set<int64_t> ids;
  for (const ImageInfo& image : images) {
    if (!ids.insert(image.id).second) continue;  // the first image with an id counts
    const auto [it, is_new] = first.try_emplace(image.file_name, image.id);
    if (!is_new) repeats.emplace(image.id, it->second);
  }
  return repeats;
}

void check_file_names(const GroundTruth& truth, const std::string& name, const ProblemReport& report) {
  const std::unordered_map<int64_t, int64_t> repeats = images_with_anothers_file(truth.images);
  if (repeats.empty()) return;
  const auto images = truth.images_by_id();
  for (const ImageInfo& image : truth.images)
    if (const auto it = repeats.find(image.id); it != repeats.end())
      report(fmt::format("{}: has the same file \"{}\" as {}", truth.where(image, name), image.file_name,
                         truth.name_of(*images.at(it->second))));
}

GroundTruth what_is_left(GroundTruth file, const std::vector<SeenImage>& seen,
                         std::vector<std::string>& told) {
  return Fixer(std::move(file), seen).run(told);
}

std::string leave_out_empty_boxes(GroundTruth& truth) {
  std::unordered_map<int64_t, ImageSize> sizes;
  for (const ImageInfo& image : truth.images) sizes.emplace(image.id, ImageSize{image.height, image.width});
  std::string first;
  const auto left = std::erase_if(truth.annotations, [&](const Annotation& a) {
    const auto size = sizes.find(a.image_id);
    const bool is_left = is_empty(a.bbox, size == sizes.end() ? ImageSize() : size->second);
    if (is_left && first.empty()) first = truth.name_of(a);
    return is_left;
  });
  if (left == 0) return "";
  return fmt::format(
      "{}, for example {}",
      count_among(static_cast<int64_t>(left), static_cast<int64_t>(truth.annotations.size() + left), "boxes",
                  "has no area inside its image and is left out",
                  "have no area inside their image and are left out"),
      first);
}

}  // namespace saccade
