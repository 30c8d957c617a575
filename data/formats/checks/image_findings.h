// What `data check` finds in the image files of a data set, all of which it decodes.
#pragma once

#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

// The result of inspecting one image.
struct ImageFinding {
  std::string kind, problem;
  int orientation = 1;
  bool is_missing = false, has_more = false;
  ImageSize size = {};  // as shown; 0 if it cannot be read
};

// Inspects every image; returns nothing if there is no folder.
std::vector<ImageFinding> inspect_images(const GroundTruth& file, const DataPaths& paths, int threads);
// Adds what was found to the report.
void tell_of_images(const std::vector<ImageFinding>& found, const GroundTruth& file, const DataPaths& paths,
                    DatasetReport& report);

}  // namespace saccade
