// Labelled data that lies in the folder of a data set without being one of its splits.
#pragma once

#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

// Folders and lists in the folder that hold data of the splits' format and are none of them, in lines. Only what lies beside a split, or
// beside a folder that holds one, is looked at.
std::vector<std::string> notes_on_unused(const std::string& folder, const DataFormat& format,
                                         const DataSplits& splits);

}  // namespace saccade
