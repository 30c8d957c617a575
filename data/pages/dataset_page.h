// The report on a data set as one page: its contents, their distribution over classes and splits,
// and what looks odd.
#pragma once

#include <string>
#include <vector>

#include "data/pages/split.h"

namespace saccade {

struct DatasetPageOptions {
  std::string title;  // the folder or file
  std::string footer;
  int64_t most_images = 20000;             // that are inspected
  std::function<void()> progress = [] {};  // called after each image
};
// One or more splits with the same classes. Fills in sizes that the lists lack.
// The page depends only on the files.
std::string dataset_page(std::vector<ReportedSplit>& splits, const DatasetPageOptions& options);

}  // namespace saccade
