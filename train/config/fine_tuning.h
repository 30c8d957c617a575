// What becomes of a recipe when a training on somebody's own data begins with weights that were trained
// before.
#pragma once

#include <string>
#include <vector>

#include "train/config/quick_flags.h"
#include "train/config/task.h"

namespace saccade {

// Recipes of transformers with averages of the weights are those of papers, for 118,000 images and a long
// training. On few images, with weights that know objects already: steps of at most 16 images and a fifth of
// the data, averages over a fiftieth of the steps (but 100), a warm-up of 100 to 500 steps and at most a
// twentieth of them, a constant rate that falls to a tenth at the end, no strong augmentation in the last
// tenth, and mosaic and mix-up with more than 1,000 images alone. What --set or a flag says stays as it is,
// and so do other recipes. `notes` gets a line for each change.
Config fine_tuned(const Config& config, const DataSize& size, const std::vector<std::string>& sets,
                  const QuickFlags& quick, std::vector<std::string>& notes);

}  // namespace saccade
