// Checks the masks of a data set, whatever files they were read from.
#pragma once

#include <string>

#include "data/formats/ground_truth.h"

namespace saccade {

// Reports segmentations that are no valid masks ("NAME: annotation 7: mask: ..."), including runs of another
// size than their image if that is known, and removes them: the objects keep their boxes. Polygons of fewer
// than three points are dropped, and a note counts them.
void check_masks(GroundTruth& truth, const std::string& name, const ProblemReport& report);

// Returns the place of an object with its image's file: "train.json: annotation 7 (image 3, a.jpg)".
std::string place_of_mask(const GroundTruth& truth, const Annotation& a, const ImageInfo& image,
                          const std::string& list);

// Returns whether it has no pixel in an image of this size; 0 x 0 if that is unknown.
bool has_no_pixel(const Segmentation& segmentation, ImageSize size);
// Reports objects, except crowds, without a mask or with one of no pixel.
void check_all_have_masks(GroundTruth truth, const std::string& name, const ProblemReport& report);
// Turns these into crowds, which models of masks leave out and their metrics ignore; returns their number.
int64_t make_crowds_without_masks(GroundTruth& truth);

// Removes the polygons of fewer than three points and returns their number.
int64_t leave_out_points(Segmentation& segmentation);

}  // namespace saccade
