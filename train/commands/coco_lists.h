// The lists that data convert and data check --fix write.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/files/output_file.h"
#include "data/formats/ground_truth.h"
#include "train/commands/data/sources.h"

namespace saccade {

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
