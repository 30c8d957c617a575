// Detects boxes in another unit or form than pixels of [x, y, width, height], and metrics that depend on
// numbers that nobody gave. The same code checks data sets and detections.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/types/image_size.h"
#include "data/formats/ground_truth.h"

namespace saccade {

// Takes one box after another, from images whose size may be unknown (0 x 0).
class BoxUnits {
 public:
  void add(const std::array<double, 4>& bbox, ImageSize image);
  // Returns whether the boxes are between 0 and 1, like fractions of the image: all of them,
  // or without `all`, as for detections, nearly all.
  bool look_like_parts(bool all) const;
  // Returns "are between 0 and 1: they look like fractions of the image, expected ...", for boxes that do;
  // `form`: that of their file.
  std::string about_parts(BoxForm form = BoxForm::kCornerAndSize) const;
  // Returns the form that the boxes seem to have if it is another one: "the boxes look like [x1, y1, x2, y2],
  // expected ...", or "".
  std::string other_form(BoxForm form = BoxForm::kCornerAndSize) const;

 private:
  // Counts how many boxes fit other forms, in images of known size, and how many contradict the assumed form.
  struct Forms {
    size_t count = 0, corners = 0, centred_corners = 0, sizes = 0, far = 0, outside = 0, negative = 0;
    void add(const std::array<double, 4>& bbox, double width, double height);
    // Whether nearly all boxes fit `form` and more than this fraction is `against` the assumed one.
    bool fits(size_t form, size_t against, double part) const;
    // Whether nearly all boxes have their second corner right of and below the first, inside the image, while
    // most would extend outside it if read as width and height.
    bool are_corners() const { return fits(corners, far, 0.5); }
  };
  size_t count_ = 0, parts_ = 0;
  Forms in_pixels_, in_parts_;
};

// How far a box may extend beyond the border of its image: annotations are often rounded.
inline constexpr double kBorderPixels = 0.5;
bool reaches_outside(const std::array<double, 4>& bbox, ImageSize image);
// Returns whether no part of the box is in the image.
bool is_empty(const std::array<double, 4>& bbox, ImageSize image);

// The sizes of a list's images in its order, as they were seen, which training uses. Where none (0 x 0) was
// seen, that of the list counts. Empty if none was inspected.
using SeenSizes = std::span<const ImageSize>;

// Returns "66 of 66 boxes are between 0 and 1: ...", or "".
std::string boxes_that_are_parts(const GroundTruth& truth);
// Returns "the boxes look like [x1, y1, x2, y2], ...", or "".
std::string boxes_of_other_form(const GroundTruth& truth, SeenSizes seen);
// Lists things that are allowed but rarely intended: boxes that look like those of another form, areas that
// are 0, larger than their box or far below it. One line each.
std::vector<std::string> remarks_on_boxes(const GroundTruth& truth, SeenSizes seen);
// Lists what the metrics of detections in the set do not show, one line each.
std::vector<std::string> remarks_on_metrics(const GroundTruth& truth);
// Lists the last two for training or evaluation on the set, and also what its reader noted, and how many
// boxes extend outside their images or have no area there.
std::vector<std::string> notes_on_boxes(const GroundTruth& truth, SeenSizes seen = {});

}  // namespace saccade
