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
  // "nearly a model as that of --model mask_rcnn_r50, but it lacks 1 of 307 tensors (...)", or
  // "a model as that of --model mask_rcnn_r50", where it lacks none
  std::string text() const;
  int64_t tensors = 0;
};

// Among the models of all recipes, by the names of tensors under every naming that is known; nothing where
// too many are missing.
std::optional<NearestModel> nearest_model(const WeightsFile& file);

}  // namespace saccade
