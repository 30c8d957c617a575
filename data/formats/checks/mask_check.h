// The masks of a data set, whatever files they were read from.
#pragma once

#include <string>

#include "data/formats/ground_truth.h"

namespace saccade {

// Reports segmentations that are no masks ("NAME: annotation 7: mask: ..."), also runs of another size than
// their image where that is known, and takes them away: the objects keep their boxes. Polygons of fewer than
// three points are left out, which a note counts.
void check_masks(GroundTruth& truth, const std::string& name, const ProblemReport& report);

// Where an object stands, with its image's file: "train.json: annotation 7 (image 3, a.jpg)".
std::string place_of_mask(const GroundTruth& truth, const Annotation& a, const ImageInfo& image,
                          const std::string& list);

// Whether it has no pixel in an image of this size; 0 x 0 where that is not known.
bool has_no_pixel(const Segmentation& segmentation, ImageSize size);
// Reports objects without a mask, or with one of no pixel, but for crowds.
void check_all_have_masks(GroundTruth truth, const std::string& name, const ProblemReport& report);
// Makes these crowds, which models of masks leave out and their metrics ignore; how many they were.
int64_t make_crowds_without_masks(GroundTruth& truth);

// Takes the polygons of fewer than three points away; how many they were.
int64_t leave_out_points(Segmentation& segmentation);

}  // namespace saccade
