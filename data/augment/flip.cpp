// Flips and quarter turns.
#include "data/augment/augment.h"
#include "data/augment/transforms.h"

namespace saccade {
namespace {

// Registers a step whose probability is the field with its name.
bool add_turn(const char* name, int order, AugmentFunction (*make)(const AugmentFields&)) {
  return augmentations().add({.name = name, .order = order, .probability = name, .make = make});
}

// Rotates by 90, 180 or 270 degrees with equal probability.
void rotate_at_random(Sample& sample, Rng& rng) {
  rotate90(sample, static_cast<int>(pick_between(rng, 1, 3)));
}

[[maybe_unused]] const bool turns_registered =
    add_turn("horizontal_flip", 1,
             [](const AugmentFields&) -> AugmentFunction {
               return [](Sample& sample, Rng&) { flip_horizontal(sample); };
             }) &&
    add_turn("vertical_flip", 2,
             [](const AugmentFields&) -> AugmentFunction {
               return [](Sample& sample, Rng&) { flip_vertical(sample); };
             }) &&
    add_turn("rotate90", 3, [](const AugmentFields&) -> AugmentFunction { return rotate_at_random; });

}  // namespace
}  // namespace saccade
