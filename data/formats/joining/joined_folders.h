// Several sets of class folders as one, or some of their classes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

using OpenFolders = std::function<std::shared_ptr<const ClassificationDataset>(
    const DataPaths& paths, const std::vector<std::string>& classes)>;

// Classes of one name are one class, in the order of paths.choice, else in which they come; with `classes`, these are the classes, and
// labels are places in that list. Images of classes that are not chosen are left out. Throws InputError for what `open` throws it, for
// unknown names, and for a class that is not one of `classes`.
std::shared_ptr<const ClassificationDataset> join_folders(const DataPaths& paths,
                                                          const std::vector<std::string>& classes,
                                                          const OpenFolders& open);

}  // namespace saccade
