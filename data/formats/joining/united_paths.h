// Paths of several data sets that are used as one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

// The united sets, or the single one.
std::vector<DataPaths> sets_of(const DataPaths& paths);
// Returns one set of `all` for its format's reader: with all of its classes.
DataPaths plain_set(DataPaths set, const DataPaths& all);
// Unites several sets: the name is made of their annotations, and the images are below the folder that
// contains all of theirs. A single set stays unchanged.
DataPaths unite_paths(const std::vector<DataPaths>& sets);
// For a set among others: its classes are identified by their names, whatever ids its list gives them.
DataPaths known_by_names(DataPaths paths);

// How find_united searches for the sets of each place.
struct PlaceOptions {
  std::string format = {};  // the wanted format; "" for the one that recognises the place
  Contents wants = {.boxes = true};
  double val_fraction = 0;  // of a validation split drawn (draw_validation) if none of the places has one
  uint64_t seed = 0;
};
// Returns the contents of the places, uniting each split from those that have it. Besides the places' notes,
// its notes name places that lack a split of others. Throws InputError as find_splits does.
DataSplits find_united(const std::vector<std::string>& places, const PlaceOptions& options);

// Reads several sets of class folders as one, or some of their classes.
using ReadFolders = std::function<GroundTruth(const DataPaths& paths)>;

// Unites classes with the same name, in the order of paths.choice, else in order of appearance; if
// paths.categories is set, it gives the classes. Images of classes that are not chosen are left out. Throws
// InputError if `read` does, for unknown names, and for a class that is not one of the known ones.
GroundTruth join_folders(const DataPaths& paths, const ReadFolders& read);

}  // namespace saccade
