// Adjusts a recipe for a training on the user's own data that begins with pretrained weights.
#pragma once

#include <string>
#include <vector>

#include "train/config/quick_flags.h"
#include "train/config/task.h"

namespace saccade {

// Changes only recipes of transformers with averaged weights: they follow papers that trained for long on
// 118,000 images. For few images and pretrained weights, a step has at most 16 images and a fifth of the
// data, averages span a fiftieth of the steps (at least 100), the warm-up takes 100 to 500 steps and at most
// a twentieth of them, a constant rate falls to a tenth at the end, the last tenth has no strong
// augmentation, and mosaic and mix-up need more than 1,000 images. What --set or a flag says stays.
Config fine_tuned(const Config& config, const DataSize& size, const std::vector<std::string>& sets,
                  const QuickFlags& quick);

}  // namespace saccade
