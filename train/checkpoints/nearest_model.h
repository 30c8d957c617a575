// What a file of weights nearly is: one of which some tensors are missing, or have other names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/formats/weights_file.h"

namespace saccade {

struct NearestModel {
  std::string recipe;                // whose model has most of the names
  std::vector<std::string> missing;  // its tensors that the file lacks, by their official names
  int64_t others = 0;                // tensors of the file that it does not have
  std::string text() const;          // "nearly that of mask_rcnn_r50, without 1 of its 300 tensors: ..."
  int64_t tensors = 0;
};

// Among the models of all recipes, by the names of tensors under every naming that is known; nothing where
// too many are missing, or none is.
std::optional<NearestModel> nearest_model(const WeightsFile& file);

}  // namespace saccade
