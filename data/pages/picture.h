// Pictures in pages, small and inside of them.
#pragma once

#include "data/images/draw.h"
#include "data/pages/html.h"

namespace saccade {

// The image within this many pixels a side, with the boxes, which are in pixels of the image as it is given.
Image small_picture(const Image& image, const std::vector<Instance>& boxes,
                    const std::vector<std::string>& names, int64_t side);
// Two pictures side by side, the same height, a gap between them.
Image side_by_side(const Image& left, const Image& right);
// What is in and around the box, at most `side` pixels a side, with the box and others drawn;
// small ones are enlarged.
Image cut_around(const Image& image, const Instance& box, const std::vector<Instance>& others,
                 const std::vector<std::string>& names, int64_t side);

Html picture(const Image& image, const std::string& description, const Html& caption);

}  // namespace saccade
