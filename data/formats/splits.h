// The parts of a data set in one folder.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

// The names of a split's folders and files, which may also be written "Train" and "TRAIN"; "train",
// "val" and "test" come first.
struct SplitNames {
  std::optional<DataPaths> DataSplits::*split;
  std::vector<std::string> names;
  bool has(const std::string& name) const { return std::ranges::find(names, name) != names.end(); }
};
const std::vector<SplitNames>& split_names();
// Returns the split with this name; null if there is none.
const SplitNames* split_by_name(const std::string& name);
// The existing splits, called "train", "val" and "test".
std::vector<std::pair<std::string, DataPaths>> named_splits(const DataSplits& splits);
// Adds a note on a place with this name that no split is read from: it is left out, or another is used.
void note_left_out(const std::string& place, const std::string& name, DataSplits& splits);
// Returns the split called "train", "val" or "test". Throws InputError for another name.
const std::optional<DataPaths>& split_called(const DataSplits& splits, const std::string& name);

// Finds the contents of a folder, in the layout of the only format that recognises it and provides something
// of what is wanted, or of the named format; or what a file (data.yaml) names.
// Throws InputError if no format recognises it, or several do.
DataSplits find_splits(const std::string& folder, const std::string& format = "",
                       const Contents& wanted = {.boxes = true});
// The same, but if no format recognises the folder, the result's format is "".
DataSplits look_for_splits(const std::string& folder, const std::string& format = "",
                           const Contents& wanted = {.boxes = true});
// Returns the nearest subfolders in which look_for_splits finds something.
std::vector<std::string> sets_below(const std::string& folder, const std::string& format = "",
                                    const Contents& wanted = {.boxes = true});
// Tells each split about the others: formats that identify classes only by name number those of all splits,
// and images that one list lacks may be named in another.
void join_classes(DataSplits& splits);
// Calls visit(split, name) for each split and each of its names, in order of precedence.
template <class Visit>
void for_each_split_name(DataSplits& splits, Visit visit) {
  for (const SplitNames& split : split_names())
    for (const std::string& name : split.names) visit(splits.*split.split, name);
}
// Sets each split that is not known yet to the result of `find` for the first folder of its names in which it
// finds something.
void find_in_folders(const std::string& folder, DataSplits& splits,
                     const std::function<std::optional<DataPaths>(const std::string& own)>& find);
// If there is no validation split, makes one of this fraction of the training images; the choice depends only
// on the seed and their names. Returns a line about it; "" if nothing was drawn.
std::string draw_validation(DataSplits& splits, double share, uint64_t seed);
// Returns a line about images of a set that are also in the training set; "" if there are none.
std::string remark_on_shared_images(const GroundTruth& training, const DataPaths& training_paths,
                                    const GroundTruth& truth, const DataPaths& paths);
// Returns lines about classes, by name, that have objects in only one of the two sets.
std::vector<std::string> remarks_on_lone_classes(const GroundTruth& training, const GroundTruth& truth);
// Returns all remarks about a set next to its training set.
std::vector<std::string> remarks_on_split(const GroundTruth& training, const DataPaths& training_paths,
                                          const GroundTruth& truth, const DataPaths& paths);
// Returns the images in an order that depends only on the key and their names.
std::vector<const ImageInfo*> drawn_order(const GroundTruth& truth, uint64_t key);
// Keeps the images for which stays(id) is true, and their objects.
template <class Stays>
void keep_images(GroundTruth& truth, Stays stays) {
  std::erase_if(truth.images, [&](const ImageInfo& i) { return !stays(i.id); });
  std::erase_if(truth.annotations, [&](const Annotation& a) { return !stays(a.image_id); });
}
// Returns the images of a drawn split, or all; at most paths.most of them.
GroundTruth part_of(GroundTruth truth, const DataPaths& paths);

}  // namespace saccade
