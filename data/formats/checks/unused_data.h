// What is in the folder of a data set without being read: labelled data, and images that no list names.
#pragma once

#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

// Files of labels of the splits' format, and lists of them, that none of the sets is read from, in lines. The
// place of `own`, or the folder of the file that describes it, is looked through with all that is below it,
// but for links to folders, which are told. Where nothing is read there,
// it is the folder that all of the sets lie in.
std::vector<std::string> notes_on_unused(const std::string& place, const DataSplits& own,
                                         const std::vector<DataSplits>& all);

// Adds a note on the images of the folder that neither these lists nor those of the splits next to them (with
// `read`) name. Where looking takes more than so many seconds, that is reported in its place.
void note_unnamed_images(GroundTruth& truth, const DataPaths& paths,
                         GroundTruth (*read)(const DataPaths& paths, const ProblemReport& report),
                         double seconds = 10);

}  // namespace saccade
