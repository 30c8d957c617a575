// SanitizeBoundingBoxes of torchvision, after the steps that crop the image and again at its final size:
// boxes of which hardly anything is left are no objects to learn.
#include "core/tensor/error.h"
#include "data/augment/augment.h"
#include "data/augment/transforms.h"

namespace saccade {
namespace {

AugmentFunction make_min_box_side(const AugmentFields& fields) {
  const double side = fields.number("min_box_side");
  SACCADE_CHECK(side >= 0, "[augment] min_box_side must not be negative");
  if (side == 0) return nullptr;
  return [side](Sample& sample, Rng&) { drop_small_boxes(sample, side); };
}

bool add_min_box_side(const char* name, int order) {
  return augmentations().add({.name = name, .order = order, .make = &make_min_box_side});
}

[[maybe_unused]] const bool min_box_side_registered =
    add_min_box_side("min_box_side", -5) && add_min_box_side("min_box_side_resized", 35);

}  // namespace
}  // namespace saccade
