// Boxes that are in another unit or form than pixels of [x, y, width, height], and metrics that depend on
// numbers nobody gave. Data sets and detections are looked at by the same code.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/types/image_size.h"
#include "data/formats/ground_truth.h"

namespace saccade {

// Takes one box after another, of images whose size may be unknown (0 x 0).
class BoxUnits {
 public:
  void add(const std::array<double, 4>& bbox, ImageSize image);
  // All (of detections: nearly all) are in 0 to 1: parts of the image.
  bool look_like_parts(bool all) const;
  // "are in 0 to 1: they look like parts of the image, expected ...", for those that do.
  std::string about_parts() const;
  // In which form they are where their numbers were taken for another: "the boxes look like [x1, y1, x2, y2],
  // expected ...", or "".
  std::string other_form() const;

 private:
  // How many boxes fit another form, in images of some size, and what speaks against the form that they were
  // taken for.
  struct Forms {
    size_t count = 0, corners = 0, centred_corners = 0, sizes = 0, far = 0, outside = 0, negative = 0;
    void add(const std::array<double, 4>& bbox, double width, double height);
    // Of nearly all boxes, and of more than this part of them.
    bool fits(size_t form, size_t against, double part) const;
    // Nearly all have their second corner right of and below the first, inside of the image, but as a width
    // and height these lead out of it for most.
    bool are_corners() const { return fits(corners, far, 0.5); }
  };
  size_t count_ = 0, parts_ = 0;
  Forms in_pixels_, in_parts_;
};

// How far a box may pass the border of its image: annotations are often rounded.
inline constexpr double kBorderPixels = 0.5;
bool reaches_outside(const std::array<double, 4>& bbox, ImageSize image);
// Whether nothing of the box is in the image.
bool is_empty(const std::array<double, 4>& bbox, ImageSize image);

// Of the images of a list in its order, as they were seen: they count where the list has no size. Empty:
// none was looked at.
using SeenSizes = std::span<const ImageSize>;

// "all 66 boxes are in 0 to 1, ...", or "".
std::string boxes_that_are_parts(const GroundTruth& truth);
// "the boxes look like [x1, y1, x2, y2], ...", or "".
std::string boxes_of_other_form(const GroundTruth& truth, SeenSizes seen);
// What is allowed, but rarely meant: boxes that look like those of another form, areas that are 0, larger
// than their box or far below it. A line each.
std::vector<std::string> remarks_on_boxes(const GroundTruth& truth, SeenSizes seen);
// What the metrics of detections in the set do not show, a line each.
std::vector<std::string> remarks_on_metrics(const GroundTruth& truth);
// All of it, for who trains on or judges by the set: also what its reader noted, and how many boxes reach
// outside their images or have no area there.
std::vector<std::string> notes_on_boxes(const GroundTruth& truth, SeenSizes seen = {});

}  // namespace saccade
