// Everything that is wrong with a COCO-format data set, not only the first thing.
#pragma once

#include <string>
#include <vector>

namespace saccade {

// One line per problem, each naming the annotation, image or category id: missing or mistyped fields, numbers
// that are not finite, boxes of no or negative size or outside their image, unknown and repeated ids, missing
// or undecodable files, and files whose size differs from what the annotations say. Empty when all is well.
// A file that is not JSON at all is one problem. images_dir may be empty: then no image is looked at.
std::vector<std::string> check_coco(const std::string& annotations_path, const std::string& images_dir,
                                    int threads = 0);

}  // namespace saccade
