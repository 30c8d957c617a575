// Label maps as colours.
#pragma once

#include <string>
#include <vector>

#include "core/types/label_map.h"
#include "data/images/image.h"

namespace saccade {

// Lets the colours of the labels shine through, with lines between them, and writes which is which;
// ignored pixels stay.
void paint_labels(Image& image, const LabelMap& labels, const std::vector<std::string>& names);
// The image with the true labels next to it with the found ones, within this many pixels a side each.
Image labels_beside_each_other(const Image& image, const LabelMap& truth, const LabelMap& found,
                               const std::vector<std::string>& names, int64_t side);

}  // namespace saccade
