// COCO instances files (https://cocodataset.org/#format-data).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/formats/data_format.h"
#include "data/formats/dataset.h"

namespace saccade {

// Reads the file paths.annotations with everything in its order. A record with a missing or mistyped field is
// reported and left out; all others are kept. Throws InputError if the file cannot be read, is not JSON, or
// lacks one of the three lists (except with paths.may_lack_annotations). It also accepts, and reports in the
// notes: ids that are words, which are numbered (categories as paths.categories has their names), annotations
// without an id, segmentations without a box or with a box of zeros; and silently: images without a size,
// numbers in quotes, and LVIS's coco_url instead of a file name. With paths.wants.masks the segmentations are
// read; a faulty one is reported and left out, while the annotation stays.
GroundTruth read_coco(const DataPaths& paths, const ProblemReport& report);

// Returns the part after the host's name, "train2017/000000000001.jpg"; "" if it is no URL.
std::string path_of_url(const std::string& url);

// The start of the description of lists that `saccade data` writes, and the start of these files.
inline constexpr const char* kWrittenFrom = "written by saccade from ";
inline constexpr std::string_view kWrittenList = "{\"info\":{\"description\":\"written by saccade from ";

// The lists as such a file. `description` names their origin. image_folder, relative to the file's folder, is
// stored as the default place of their images, unless it is "".
std::string coco_json(const GroundTruth& truth, const std::string& description,
                      const std::string& image_folder = "");

// COCO's own categories by id, 0 to 90; kNoCategory for the unused ids.
const std::vector<std::string>& coco_class_names();

}  // namespace saccade
