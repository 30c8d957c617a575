// COCO instances files (https://cocodataset.org/#format-data).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/formats/data_format.h"
#include "data/formats/dataset.h"

namespace saccade {

// Reads the file paths.annotations; everything in its order. A record with a missing or mistyped field is
// reported and left out, all others are kept. Throws InputError when the file cannot be read, is not JSON, or
// lacks one of the three lists (but for paths.may_lack_annotations). Also taken, and told in the notes: ids
// that are words, which are numbered (categories as paths.categories has their names), annotations without an
// id, segmentations without a box or next to one of zeros, and, silently, images without a size, numbers in
// quotes, and LVIS's coco_url instead of a file's name. With paths.wants.masks the segmentations are read;
// where one has a fault it is reported and left out, and the annotation stays.
GroundTruth read_coco(const DataPaths& paths, const ProblemReport& report);

// What follows the host's name, "train2017/000000000001.jpg"; "": it is no address.
std::string path_of_url(const std::string& url);

// What the description of lists begins with that `saccade data` writes, and what these begin with.
inline constexpr const char* kWrittenFrom = "written by saccade from ";
inline constexpr std::string_view kWrittenList = "{\"info\":{\"description\":\"written by saccade from ";

// The lists as such a file. `description` says where they are from, and image_folder where their images lie,
// from the file's folder on: there they are looked for where nothing else is said. "": it is not said.
std::string coco_json(const GroundTruth& truth, const std::string& description,
                      const std::string& image_folder = "");

// COCO's own categories by id, 0 to 90; kNoCategory at the ids that it does not use.
const std::vector<std::string>& coco_class_names();

}  // namespace saccade
