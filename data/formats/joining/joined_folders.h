// Several sets of class folders as one, or some of their classes.
#pragma once

#include <functional>

#include "data/formats/data_format.h"

namespace saccade {

using ReadFolders = std::function<GroundTruth(const DataPaths& paths)>;

// Classes of one name are one class, in the order of paths.choice, else in which they come; with
// paths.categories, these are the classes. Images of classes that are not chosen are left out. Throws
// InputError for what `read` throws it, for unknown names, and for a class that is not one of the known ones.
GroundTruth join_folders(const DataPaths& paths, const ReadFolders& read);

}  // namespace saccade
