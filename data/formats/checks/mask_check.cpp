#include "data/formats/checks/mask_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/files/text.h"

namespace saccade {
namespace {

// An odd number of coordinates does not form a polygon at all.
bool has_no_area(const std::vector<double>& polygon) { return polygon.size() < 6 && polygon.size() % 2 == 0; }

// The area enclosed by its outline: 0 for a line.
double area_within(const std::vector<double>& polygon) {
  double twice = 0;
  for (size_t i = 0; i + 1 < polygon.size(); i += 2) {
    const size_t next = (i + 2) % polygon.size();
    twice += polygon[i] * polygon[next + 1] - polygon[next] * polygon[i + 1];
  }
  return std::abs(twice) / 2;
}

// The box around the set pixels, in the image; all 0 if there are none.
Box box_of_mask(const Segmentation& segmentation, ImageSize size) {
  if (segmentation.polygons.empty()) return segmentation.runs.box();
  Box box{HUGE_VAL, HUGE_VAL, -HUGE_VAL, -HUGE_VAL};
  for (const std::vector<double>& polygon : segmentation.polygons) box = around(box, box_around(polygon));
  return size.width > 0 ? cut(box, size) : box;
}

// Whether they share most of their area, or differ only by rounding.
bool fit_each_other(const Box& a, const Box& b) {
  constexpr double kLeastShared = 0.5, kPixels = 2;
  const double both = intersection(a, b);
  const double farthest =
      std::max({std::abs(a.x1 - b.x1), std::abs(a.y1 - b.y1), std::abs(a.x2 - b.x2), std::abs(a.y2 - b.y2)});
  return farthest <= kPixels || both >= kLeastShared * (a.area() + b.area() - both);
}

// Whether they are inside the first pixel, like fractions of an image.
bool are_parts(const std::vector<std::vector<double>>& polygons) {
  bool is_whole = true;  // all numbers are
  for (const std::vector<double>& polygon : polygons)
    for (const double v : polygon) {
      if (v < 0 || v > 1) return false;
      is_whole = is_whole && v == std::floor(v);
    }
  return !is_whole;
}

class MaskCheck {
 public:
  MaskCheck(GroundTruth& truth, const std::string& name, const ProblemReport& report)
      : truth_(truth), name_(name), report_(report) {}

  void run() {
    for (const ImageInfo& image : truth_.images)
      sizes_.emplace(image.id, ImageSize{image.height, image.width});
    for (Annotation& a : truth_.annotations) {
      if (!a.segmentation) continue;
      leave_out_points(a);
      check(a);
    }
    if (elsewhere_ > 0)
      truth_.notes.push_back(
          fmt::format("{} (IoU below 0.5), for example that of {}",
                      count_of(elsewhere_, "mask does not fit its box", "masks do not fit their boxes"),
                      first_elsewhere_));
    if (parts_ > 0)
      truth_.notes.push_back(fmt::format(
          "the polygons of {} are between 0 and 1: they look like fractions of the image, expected pixels; for "
          "example those of {}",
          count_of(parts_, "object", "objects"), first_part_));
    if (empty_ > 0)
      truth_.notes.push_back(fmt::format("{} no pixel in the image, for example that of {}",
                                         count_of(empty_, "mask has", "masks have"), first_empty_));
    if (points_ > 0)
      truth_.notes.push_back(
          fmt::format("{} fewer than three points and {} left out, for example in {}; {} without a mask",
                      count_of(points_, "polygon has", "polygons have"), points_ == 1 ? "is" : "are", first_,
                      count_of(without_, "object is left", "objects are left")));
  }

 private:
  void leave_out_points(Annotation& a) {
    if (std::ranges::none_of(a.segmentation->polygons, has_no_area)) return;
    Segmentation rest = *a.segmentation;
    if (points_ == 0) first_ = truth_.name_of(a);
    points_ += saccade::leave_out_points(rest);
    without_ += rest.polygons.empty();
    a.segmentation = rest.polygons.empty() ? nullptr : std::make_shared<const Segmentation>(std::move(rest));
  }

  void check(Annotation& a) {
    if (!a.segmentation) return;
    const auto image = sizes_.find(a.image_id);
    const bool is_sized = image != sizes_.end() && image->second.width > 0;
    try {
      const ImageSize size = is_sized ? image->second : a.segmentation->runs.size();
      a.segmentation->check(size);
      if (are_parts(a.segmentation->polygons)) {
        if (parts_++ == 0) first_part_ = truth_.name_of(a);
      } else if (has_no_pixel(*a.segmentation, size)) {
        if (empty_++ == 0) first_empty_ = truth_.name_of(a);
      } else if (!a.iscrowd && a.bbox[2] > 0 && a.bbox[3] > 0 &&
                 !fit_each_other(box_of_mask(*a.segmentation, size), box_of_corner(a.bbox))) {
        if (elsewhere_++ == 0) first_elsewhere_ = truth_.name_of(a);
      }
    } catch (const InputError& e) {
      report_(fmt::format("{}: {}", truth_.where(a, name_), e.what()));
      a.segmentation.reset();
      ++truth_.faulty_masks;
    }
  }

  GroundTruth& truth_;
  const std::string& name_;
  const ProblemReport& report_;
  std::unordered_map<int64_t, ImageSize> sizes_;
  int64_t points_ = 0, without_ = 0, parts_ = 0, empty_ = 0, elsewhere_ = 0;
  std::string first_, first_part_, first_empty_, first_elsewhere_;
};

}  // namespace

// Polygons are only drawn if each of them encloses less than a pixel.
bool has_no_pixel(const Segmentation& segmentation, ImageSize size) {
  if (segmentation.polygons.empty()) return segmentation.runs.area() == 0;
  const auto is_beside = [&](const std::vector<double>& polygon) {
    bool left = true, above = true, right = size.width > 0, below = size.height > 0;
    for (size_t i = 0; i + 1 < polygon.size(); i += 2) {
      left = left && polygon[i] <= 0;
      above = above && polygon[i + 1] <= 0;
      right = right && polygon[i] >= static_cast<double>(size.width);
      below = below && polygon[i + 1] >= static_cast<double>(size.height);
    }
    return left || above || right || below;
  };
  if (std::ranges::all_of(segmentation.polygons, is_beside)) return true;
  constexpr double kPixel = 1;
  const bool may_be_empty = std::ranges::all_of(
      segmentation.polygons, [&](const auto& polygon) { return area_within(polygon) < kPixel; });
  return may_be_empty && size.width > 0 && segmentation.mask(size).area() == 0;
}

int64_t leave_out_points(Segmentation& segmentation) {
  return static_cast<int64_t>(std::erase_if(segmentation.polygons, has_no_area));
}

void check_masks(GroundTruth& truth, const std::string& name, const ProblemReport& report) {
  MaskCheck(truth, name, report).run();
}

std::string place_of_mask(const GroundTruth& truth, const Annotation& a, const ImageInfo& image,
                          const std::string& list) {
  const std::string number = image.place.file > 0 ? "" : fmt::format("image {}, ", image.id);
  return fmt::format("{} ({}{})", truth.where(a, list), number, image.file_name);
}

namespace {

// Calls f(annotation, its image or null) for objects without a mask or whose mask has no pixels.
template <class F>
void for_each_without_mask(GroundTruth& truth, F f) {
  const auto images = truth.images_by_id();
  for (Annotation& a : truth.annotations) {
    if (a.iscrowd) continue;
    const auto image = images.find(a.image_id);
    const ImageInfo* own = image == images.end() ? nullptr : image->second;
    const ImageSize size = own ? ImageSize{own->height, own->width} : ImageSize();
    if (!a.segmentation || has_no_pixel(*a.segmentation, size)) f(a, own);
  }
}

}  // namespace

void check_all_have_masks(GroundTruth truth, const std::string& name, const ProblemReport& report) {
  for_each_without_mask(truth, [&](const Annotation& a, const ImageInfo* image) {
    report(fmt::format("{}: has {}",
                       image ? place_of_mask(truth, a, *image, name) : truth.where(a, name, true),
                       a.segmentation ? "a mask without pixels" : "no mask"));
  });
}

int64_t make_crowds_without_masks(GroundTruth& truth) {
  int64_t made = 0;
  for_each_without_mask(truth, [&](Annotation& a, const ImageInfo*) {
    a.iscrowd = true;
    a.segmentation.reset();
    ++made;
  });
  return made;
}

}  // namespace saccade
