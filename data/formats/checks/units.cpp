#include "data/formats/checks/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/files/text.h"

namespace saccade {
namespace {

// For a fraction that was rounded up above 1, or an object that extends outside.
constexpr double kLargestPart = 1.05;
// With fewer boxes than this the form is not judged.
constexpr size_t kFewestBoxes = 10;

template <class Visit>
void for_each_box(const GroundTruth& truth, SeenSizes seen, Visit visit) {
  std::unordered_map<int64_t, ImageSize> sizes;
  for (size_t i = 0; i < truth.images.size(); ++i) {
    const ImageInfo& image = truth.images[i];
    const bool is_seen = i < seen.size() && seen[i].width > 0;
    sizes.emplace(image.id, is_seen ? seen[i] : ImageSize{image.height, image.width});
  }
  for (const Annotation& a : truth.annotations) {
    const auto it = sizes.find(a.image_id);
    visit(a, it == sizes.end() ? ImageSize() : it->second);
  }
}

BoxUnits units_of(const GroundTruth& truth, SeenSizes seen) {
  BoxUnits units;
  for_each_box(truth, seen, [&](const Annotation& a, ImageSize size) { units.add(a.bbox, size); });
  return units;
}

}  // namespace

void BoxUnits::Forms::add(const std::array<double, 4>& bbox, double width, double height) {
  const auto [x, y, w, h] = bbox;
  // Allows a little beyond the border, since numbers are rounded.
  const double right = 1.05 * width, bottom = 1.05 * height;
  const bool has_corner_inside = w <= right && h <= bottom;
  ++count;
  corners += w >= x && h >= y && has_corner_inside;
  centred_corners += w >= x + w / 2 && h >= y + h / 2 && has_corner_inside;
  // x + w and y + h are the numbers that were taken for a corner.
  sizes += x + w > 0 && y + h > 0 && x + (x + w) <= right && y + (y + h) <= bottom;
  far += x + w > right || y + h > bottom;
  outside += x < -0.01 * width || y < -0.01 * height || x + w > 1.01 * width || y + h > 1.01 * height;
  negative += w < 0 || h < 0;
}

bool BoxUnits::Forms::fits(size_t form, size_t against, double part) const {
  const auto all = static_cast<double>(count);
  return count >= kFewestBoxes && static_cast<double>(form) > 0.98 * all &&
         static_cast<double>(against) > part * all;
}

void BoxUnits::add(const std::array<double, 4>& bbox, ImageSize image) {
  const auto [x, y, w, h] = bbox;
  ++count_;
  parts_ += std::max({std::abs(x), std::abs(y), w, h}) <= kLargestPart && w > 0 && h > 0;
  in_parts_.add(bbox, 1, 1);
  if (image.width > 0 && image.height > 0)
    in_pixels_.add(bbox, static_cast<double>(image.width), static_cast<double>(image.height));
}

bool BoxUnits::look_like_parts(bool all) const {
  if (count_ == 0) return false;
  return all ? parts_ == count_ : static_cast<double>(parts_) > 0.98 * static_cast<double>(count_);
}

std::string BoxUnits::about_parts(BoxForm form) const {
  const bool has_size = form == BoxForm::kCornerAndSize;
  return fmt::format("are between 0 and 1: they look like fractions of the image{}, expected pixels{}",
                     has_size && in_parts_.are_corners() ? " and like [x1, y1, x2, y2]" : "",
                     has_size                    ? " [x, y, width, height]"
                     : form == BoxForm::kCorners ? " [x1, y1, x2, y2]"
                                                 : "");
}

std::string BoxUnits::other_form(BoxForm form) const {
  if (form != BoxForm::kCorners && in_pixels_.are_corners())
    return "the boxes look like [x1, y1, x2, y2], expected [x, y, width, height]: most reach outside their image";
  if (in_pixels_.fits(in_pixels_.centred_corners, in_pixels_.outside, 0.2))
    return "the boxes look like [x1, y1, x2, y2], expected [centre x, centre y, width, height]: many reach outside their image";
  if (in_pixels_.fits(in_pixels_.sizes, in_pixels_.negative, 0.3))
    return "the boxes look like [x, y, width, height], expected [x1, y1, x2, y2]: many have a negative size";
  return "";
}

bool reaches_outside(const std::array<double, 4>& bbox, ImageSize image) {
  if (image.width <= 0 || image.height <= 0) return false;
  const auto [x, y, w, h] = bbox;
  return x < -kBorderPixels || y < -kBorderPixels ||
         x + w > static_cast<double>(image.width) + kBorderPixels ||
         y + h > static_cast<double>(image.height) + kBorderPixels;
}

bool is_empty(const std::array<double, 4>& bbox, ImageSize image) {
  const auto [x, y, w, h] = bbox;
  if (!(w > 0 && h > 0)) return true;
  if (image.width <= 0 || image.height <= 0) return false;
  return x >= static_cast<double>(image.width) || y >= static_cast<double>(image.height) || x + w <= 0 ||
         y + h <= 0;
}

std::string boxes_that_are_parts(const GroundTruth& truth) {
  const BoxUnits units = units_of(truth, {});
  if (!units.look_like_parts(true)) return "";
  return fmt::format("{} of {} boxes {}", truth.annotations.size(), truth.annotations.size(),
                     units.about_parts(truth.box_form));
}

std::string boxes_of_other_form(const GroundTruth& truth, SeenSizes seen) {
  return units_of(truth, seen).other_form(truth.box_form);
}

std::vector<std::string> remarks_on_boxes(const GroundTruth& truth, SeenSizes seen) {
  std::vector<std::string> remarks;
  if (std::string form = boxes_of_other_form(truth, seen); !form.empty()) remarks.push_back(std::move(form));
  constexpr double kThinnest = 0.01;  // few objects fill so small a part of their box: these are sticks
  int64_t none = 0, large = 0, small = 0, boxes = 0;
  const Annotation *first_none = nullptr, *first_large = nullptr, *first_small = nullptr;
  for (const Annotation& a : truth.annotations) {
    const double box = a.bbox[2] * a.bbox[3];
    if (a.iscrowd || !(box > 0)) continue;
    ++boxes;
    if (a.area == 0 && none++ == 0) first_none = &a;
    if (a.area > 0 && a.area < kThinnest * box && small++ == 0) first_small = &a;
    // Areas rounded to whole pixels may be larger by a row and a column.
    if (a.area > (a.bbox[2] + 1) * (a.bbox[3] + 1) + 1 && large++ == 0) first_large = &a;
  }
  constexpr const char* kWhy = "AP_small, AP_medium and AP_large go by the area, not by the box";
  if (none > 0 && none == boxes)
    remarks.push_back(fmt::format("all {} areas are 0; {}", boxes, kWhy));
  else if (none > 0)
    remarks.push_back(fmt::format("{}, for example that of {}; {}",
                                  count_among(none, boxes, "areas", "is 0", "are 0"),
                                  truth.name_of(*first_none), kWhy));
  if (large > 0)
    remarks.push_back(
        fmt::format("{}, for example that of {}; {}",
                    count_among(large, boxes, "areas", "is larger than its box", "are larger than their box"),
                    truth.name_of(*first_large), kWhy));
  if (2 * small >= boxes && small > 0)
    remarks.push_back(fmt::format("{}, for example that of {}; are they fractions of the image? {}",
                                  count_among(small, boxes, "areas", "is less than a hundredth of its box",
                                              "are less than a hundredth of their box"),
                                  truth.name_of(*first_small), kWhy));
  return remarks;
}

std::vector<std::string> remarks_on_metrics(const GroundTruth& truth) {
  for (const Annotation& a : truth.annotations)
    if (a.id == 0)
      return {
          "annotation 0: a match with it counts as a false positive, as in pycocotools; number annotations from 1"};
  return {};
}

std::vector<std::string> notes_on_boxes(const GroundTruth& truth, SeenSizes seen) {
  std::vector<std::string> notes = truth.notes;
  for (std::string& remark : remarks_on_boxes(truth, seen)) notes.push_back(std::move(remark));
  int64_t outside = 0, empty = 0;
  const Annotation *first = nullptr, *first_empty = nullptr;
  for_each_box(truth, seen, [&](const Annotation& a, ImageSize size) {
    if (!a.iscrowd && is_empty(a.bbox, size) && empty++ == 0) first_empty = &a;
    if (!is_empty(a.bbox, size) && reaches_outside(a.bbox, size) && outside++ == 0) first = &a;
  });
  if (empty > 0)
    notes.push_back(fmt::format(
        "{}, for example {}",
        count_among(
            empty, std::ssize(truth.annotations), "boxes",
            "has no area inside its image: training leaves it out, metrics count it as an object",
            "have no area inside their image: training leaves them out, metrics count them as objects"),
        truth.name_of(*first_empty)));
  if (outside > 0)
    notes.push_back(fmt::format("{}, for example {}",
                                count_among(outside, std::ssize(truth.annotations), "boxes",
                                            "reaches outside its image, where training cuts it",
                                            "reach outside their image, where training cuts them"),
                                truth.name_of(*first)));
  return notes;
}

}  // namespace saccade
