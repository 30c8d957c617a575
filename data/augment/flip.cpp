// Flips and quarter turns.
#include "data/augment/augment.h"
#include "data/augment/transforms.h"

namespace saccade {
namespace {

[[maybe_unused]] const bool flips_registered =
    augmentations().add({.name = "horizontal_flip",
                         .order = 1,
                         .probability = "horizontal_flip",
                         .file = __FILE__,
                         .make = [](const AugmentFields&) -> AugmentFunction {
                           return [](Sample& sample, Rng&) { flip_horizontal(sample); };
                         }}) &&
    augmentations().add({.name = "vertical_flip",
                         .order = 2,
                         .probability = "vertical_flip",
                         .file = __FILE__,
                         .make = [](const AugmentFields&) -> AugmentFunction {
                           return [](Sample& sample, Rng&) { flip_vertical(sample); };
                         }}) &&
    augmentations().add({.name = "rotate90",  // by 90, 180 or 270 degrees with equal chance
                         .order = 3,
                         .probability = "rotate90",
                         .file = __FILE__,
                         .make = [](const AugmentFields&) -> AugmentFunction {
                           return [](Sample& sample, Rng& rng) {
                             rotate90(sample, static_cast<int>(pick_between(rng, 1, 3)));
                           };
                         }});

}  // namespace
}  // namespace saccade
