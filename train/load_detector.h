// A trained detector from its checkpoint alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/coco_dataset.h"
#include "models/detector.h"
#include "train/config.h"

namespace saccade {

struct LoadedDetector {
  std::shared_ptr<Detector> model;  // in evaluation mode, with the averaged weights where the file has them
  Config config;
  std::vector<std::string> class_names;  // [K]
  std::vector<int64_t> category_ids;     // [K], of the annotations it was trained on
};

// Throws InputError naming the file when it is missing, damaged, no checkpoint of ours or does not fit its
// own config.
LoadedDetector load_detector(const std::string& checkpoint);

// The classes of a model must be categories of the data set it is evaluated on, by id and by name; else
// InputError.
void check_categories(const CocoDataset& dataset, const std::vector<int64_t>& category_ids,
                      const std::vector<std::string>& class_names, const std::string& model);

}  // namespace saccade
