// The masks of a data set, whatever files they were read from.
#pragma once

#include <string>

#include "data/formats/ground_truth.h"

namespace saccade {

// Reports segmentations that are no masks ("NAME: annotation 7: mask: ..."), also runs of another size than
// their image where that is known, and takes them away: the objects keep their boxes. Polygons of fewer than
// three points are left out, which a note counts.
void check_masks(GroundTruth& truth, const std::string& name, const ProblemReport& report);

// Takes the polygons of fewer than three points away; how many they were.
int64_t leave_out_points(Segmentation& segmentation);

}  // namespace saccade
