// The check of --overfit: a model memorises a few images.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/config/quick_flags.h"

namespace saccade {

// Sets up a training on `images` images over and over, with a rate that falls to the end, and without what
// slows memorising; available: how many the data have. Flags and --set, which are applied again, stay as they
// are.
void overfit(Config& config, int64_t images, int64_t available, const QuickFlags& quick,
             const std::vector<std::string>& sets);

}  // namespace saccade
