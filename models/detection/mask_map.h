// From a predicted map of a mask's logits to the mask.
#pragma once

#include "core/types/feature_levels.h"
#include "core/types/mask.h"
#include "core/types/target.h"

namespace saccade {

// The mask in the original image, of the pixels whose logit is above 0: bilinear between the centres of the
// map's cells, which cover the padded image (`canvas`).
Mask mask_of_map(const float* logits, MapSize map, ImageSize canvas, const Target& image);

}  // namespace saccade
