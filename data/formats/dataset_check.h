// The faults of a data set, whatever files it was read from.
#pragma once

#include "data/formats/data_format.h"

namespace saccade {

// As check_detection_dataset, of lists that are read already.
void check_ground_truth(const GroundTruth& truth, const DataPaths& paths, int threads, DatasetReport& report,
                        GroundTruth* left);

}  // namespace saccade
