// Boxes that are in another unit or form than pixels of [x, y, width, height], and figures that depend on numbers nobody gave. Data sets and
// detections are looked at by the same code.
#pragma once

#include <array>
#include <cstdint>
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
  // All (of detections: nearly all) lie in 0 to 1: parts of the image.
  bool look_like_parts(bool all) const;
  // Nearly all have their second corner right of and below the first, inside of the image, but as a width and height these lead out of it
  // for most.
  bool look_like_corners() const;

 private:
  size_t count_ = 0, parts_ = 0, known_ = 0, corners_ = 0, outside_ = 0;
};

// How far a box may pass the border of its image: annotations are often rounded.
inline constexpr double kBorderPixels = 0.5;
bool reaches_outside(const std::array<double, 4>& bbox, ImageSize image);
// Whether nothing of the box lies in the image.
bool is_empty(const std::array<double, 4>& bbox, ImageSize image);

// Of the images of a list in its order, as they were seen: they count where the list has no size. Empty: none was looked at.
using SeenSizes = std::span<const ImageSize>;

// "all 66 boxes lie in 0 to 1, ...", or "".
std::string boxes_that_are_parts(const GroundTruth& truth);
// "the boxes look like [x1, y1, x2, y2], ...", or "".
std::string boxes_that_are_corners(const GroundTruth& truth, SeenSizes seen);
// What is allowed, but rarely meant: boxes that look like corners, areas that are 0, larger than their box or far
// below it. A line each.
std::vector<std::string> remarks_on_boxes(const GroundTruth& truth, SeenSizes seen);
// What the figures of detections in the set do not show, a line each.
std::vector<std::string> remarks_on_figures(const GroundTruth& truth);
// All of it, for who trains on or judges by the set: also what its reader noted, and how many boxes reach outside of their images or have
// no area there.
std::vector<std::string> notes_on_boxes(const GroundTruth& truth, SeenSizes seen = {});

}  // namespace saccade
