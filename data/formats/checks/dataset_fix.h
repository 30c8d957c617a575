// What is right of a data set.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/types/image_size.h"
#include "data/formats/ground_truth.h"

namespace saccade {

struct SeenImage {
  ImageSize size;       // as it is shown; 0 x 0: it was not looked at
  bool is_bad = false;  // its file cannot be used, or is not what the list says
};

// Of each image whose file another one before it has: the id of that one.
std::unordered_map<int64_t, int64_t> images_with_anothers_file(const std::vector<ImageInfo>& images);

// Reports each of them; name: the file, for records without a place.
void check_file_names(const GroundTruth& truth, const std::string& name, const ProblemReport& report);

// The lists without what is wrong, and boxes cut to their image. Nothing that is right goes: annotations
// whose id is used twice get new ids, images of one file become one with the boxes of all. An id that names
// several files says of no box whose it is, so all images of these files go, and with a category id that has
// several names everything does. `seen`: of each image; empty where none was looked at.
// What was done is reported in lines.
GroundTruth what_is_left(GroundTruth file, const std::vector<SeenImage>& seen,
                         std::vector<std::string>& told);

// Leaves out the boxes without area inside of their image, whose size may be unknown; a line about them,
// or "".
std::string leave_out_empty_boxes(GroundTruth& truth);

}  // namespace saccade
