// Small pictures embedded in pages.
#pragma once

#include "data/images/draw.h"
#include "data/pages/html.h"

namespace saccade {

// Returns the image, at most this many pixels a side, with the boxes, which are in pixels of the given image.
Image small_picture(const Image& image, const std::vector<Instance>& boxes,
                    const std::vector<std::string>& names, int64_t side);
// Two pictures side by side, the same height, a gap between them.
Image side_by_side(const Image& left, const Image& right);
// Returns the box with its surroundings, at most `side` pixels a side, with the box and others drawn;
// small ones are enlarged.
Image cut_around(const Image& image, const Instance& box, const std::vector<Instance>& others,
                 const std::vector<std::string>& names, int64_t side);

Html picture(const Image& image, const std::string& description, const Html& caption);

}  // namespace saccade
