// Images that lie in the folder of a set without being part of it.
#pragma once

#include "data/formats/data_format.h"

namespace saccade {

// Adds a note on the images of the folder that neither these lists nor those of the splits beside them (with
// `read`) name. Where looking takes more than so many seconds, that is told in its place.
void note_unnamed_images(GroundTruth& truth, const DataPaths& paths,
                         GroundTruth (*read)(const DataPaths& paths, const ProblemReport& report),
                         double seconds = 10);

}  // namespace saccade
