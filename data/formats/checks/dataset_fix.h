// Extracts the correct part of a data set.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/types/image_size.h"
#include "data/formats/ground_truth.h"

namespace saccade {

struct SeenImage {
  ImageSize size;       // as shown; 0 x 0 if it was not inspected
  bool is_bad = false;  // its file cannot be used or differs from the list
};

// Maps each image whose file belongs to an earlier image to the id of that one.
std::unordered_map<int64_t, int64_t> images_with_anothers_file(const std::vector<ImageInfo>& images);

// Reports each of them; name: the file, for records without a place.
void check_file_names(const GroundTruth& truth, const std::string& name, const ProblemReport& report);

// Returns the lists without faulty records, with boxes clipped to their image. Nothing correct is dropped:
// annotations with a repeated id get new ids, and images with the same file are merged with all their boxes.
// An id that names several files does not tell whose the boxes are, so all images of these files are dropped;
// if a category id has several names, everything is. `seen`: one per image; empty if none was inspected.
// The changes are reported in `told`, one line each.
GroundTruth what_is_left(GroundTruth file, const std::vector<SeenImage>& seen,
                         std::vector<std::string>& told);

// Drops the boxes without area inside their image, whose size may be unknown; returns a line about them,
// or "".
std::string leave_out_empty_boxes(GroundTruth& truth);

}  // namespace saccade
