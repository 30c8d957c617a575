// Draws label maps as colours.
#pragma once

#include <string>
#include <vector>

#include "core/types/label_map.h"
#include "data/images/image.h"

namespace saccade {

// Blends in the colours of the labels, with lines between them, and writes their names;
// ignored pixels stay unchanged.
void paint_labels(Image& image, const LabelMap& labels, const std::vector<std::string>& names);
// Returns the image with the true labels next to it with the found ones, each at most `side` pixels a side.
Image labels_beside_each_other(const Image& image, const LabelMap& truth, const LabelMap& found,
                               const std::vector<std::string>& names, int64_t side);

}  // namespace saccade
