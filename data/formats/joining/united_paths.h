// Several data sets as one: where they lie.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

// The sets that were united, or the one.
std::vector<DataPaths> sets_of(const DataPaths& paths);
// One of those of `all`, as its format reads it: with all of its classes.
DataPaths plain_set(DataPaths set, const DataPaths& all);
// One of several: named after their annotations, with the images below the folder that all of theirs lie in.
// One stays as it is.
DataPaths unite_paths(const std::vector<DataPaths>& sets);
// Of a set besides others: its classes are known by their names, whatever ids its list gives them.
DataPaths known_by_names(DataPaths paths);

// How find_united looks for the sets of each place.
struct PlaceOptions {
  std::string format = {};  // the one that is meant; "": the one that knows the place
  Contents wants = {.boxes = true};
  double val_fraction =
      0;  // of a validation split that is drawn (draw_validation) where none of the places has one
  uint64_t seed = 0;
};
// What one place or several hold, each split united of those that have it. The notes tell, besides what the
// places' own do, which have nothing of a split that others have. Throws InputError as find_splits does.
DataSplits find_united(const std::vector<std::string>& places, const PlaceOptions& options);

// Several sets of class folders as one, or some of their classes.
using ReadFolders = std::function<GroundTruth(const DataPaths& paths)>;

// Classes of one name are one class, in the order of paths.choice, else in which they come; with
// paths.categories, these are the classes. Images of classes that are not chosen are left out. Throws
// InputError for what `read` throws it, for unknown names, and for a class that is not one of the known ones.
GroundTruth join_folders(const DataPaths& paths, const ReadFolders& read);

}  // namespace saccade
