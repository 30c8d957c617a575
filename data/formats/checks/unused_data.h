// Finds data in the folder of a data set that is not read: labelled data, and images that no list names.
#pragma once

#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

// Returns lines about label files of the splits' format, and lists of them, that none of the sets is read
// from. The place of `own`, or the folder of the file that describes it, is searched with all its subfolders,
// except links to folders, which are reported. If nothing is read there,
// the folder that contains all of the sets is searched.
std::vector<std::string> notes_on_unused(const std::string& place, const DataSplits& own,
                                         const std::vector<DataSplits>& all);

// Adds a note on the images of the folder that neither these lists nor those of the splits next to them (read
// with `read`) name. If the search takes more than this many seconds, that is reported instead.
void note_unnamed_images(GroundTruth& truth, const DataPaths& paths,
                         GroundTruth (*read)(const DataPaths& paths, const ProblemReport& report),
                         double seconds = 10);

}  // namespace saccade
