#include "data/formats/checks/mask_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "data/formats/listing.h"

namespace saccade {
namespace {

// An odd number of coordinates is no polygon at all.
bool has_no_area(const std::vector<double>& polygon) { return polygon.size() < 6 && polygon.size() % 2 == 0; }

// Of its outline as it is passed: 0 of a line.
double area_within(const std::vector<double>& polygon) {
  double twice = 0;
  for (size_t i = 0; i + 1 < polygon.size(); i += 2) {
    const size_t next = (i + 2) % polygon.size();
    twice += polygon[i] * polygon[next + 1] - polygon[next] * polygon[i + 1];
  }
  return std::abs(twice) / 2;
}

// Whether no pixel is set; size: 0 where it is not known. Polygons are drawn only if they are that small.
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
    if (empty_ > 0)
      truth_.notes.push_back(fmt::format("{} no pixel in the image, the first of {}",
                                         count_of(empty_, "mask has", "masks have"), first_empty_));
    if (points_ > 0)
      truth_.notes.push_back(
          fmt::format("{} fewer than three points and {} left out, the first of {}; {} without a mask",
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
      if (has_no_pixel(*a.segmentation, size) && empty_++ == 0) first_empty_ = truth_.name_of(a);
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
  int64_t points_ = 0, without_ = 0, empty_ = 0;
  std::string first_, first_empty_;
};

}  // namespace

int64_t leave_out_points(Segmentation& segmentation) {
  return static_cast<int64_t>(std::erase_if(segmentation.polygons, has_no_area));
}

void check_masks(GroundTruth& truth, const std::string& name, const ProblemReport& report) {
  MaskCheck(truth, name, report).run();
}

}  // namespace saccade
