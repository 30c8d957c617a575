// The lists that data convert and data check --fix write.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/files/output_file.h"
#include "data/formats/ground_truth.h"
#include "train/commands/data/sources.h"

namespace saccade {

// "12 images in photos, 30 boxes (2 more are left out), 2 categories".
std::string counts_of_list(const GroundTruth& truth, const std::string& images, int64_t boxes_left_out = 0);

// Those of a data set's splits, as COCO's: they appear together or, where one of them has a fault,
// not at all.
class CocoLists {
 public:
  void add(const DataSource& source, const GroundTruth& truth);
  // Of all; with a line about each.
  void write();

 private:
  std::vector<std::unique_ptr<OutputFile>> files_;
  std::vector<std::string> lines_;
};

}  // namespace saccade
