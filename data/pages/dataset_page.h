// The report on a data set as one page: what is in it, how it is spread over classes and splits,
// and what looks odd.
#pragma once

#include <string>
#include <vector>

#include "data/pages/split.h"

namespace saccade {

struct DatasetPageOptions {
  std::string title;  // the folder or file
  std::string footer;
  int64_t most_images = 20000;             // that are looked at
  std::function<void()> progress = [] {};  // an image is done
};
// One split or more, of the same classes. Sizes that the lists lack are filled in.
// The page depends on the files alone.
std::string dataset_page(std::vector<ReportedSplit>& splits, const DatasetPageOptions& options);

}  // namespace saccade
