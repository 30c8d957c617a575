// The parts of a data set that is in one folder.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

// The names that a split's folders and files go by, "Train" and "TRAIN" too; "train",
// "val" and "test" come first.
struct SplitNames {
  std::optional<DataPaths> DataSplits::*split;
  std::vector<std::string> names;
  bool has(const std::string& name) const { return std::ranges::find(names, name) != names.end(); }
};
const std::vector<SplitNames>& split_names();
// The split that goes by this name; null: none.
const SplitNames* split_by_name(const std::string& name);
// Those that are there, called "train", "val" and "test".
std::vector<std::pair<std::string, DataPaths>> named_splits(const DataSplits& splits);
// A note on a place that is called so, unless a split is read from it: it is left out, or another is taken.
void note_left_out(const std::string& place, const std::string& name, DataSplits& splits);
// That called "train", "val" or "test". Throws InputError for another name.
const std::optional<DataPaths>& split_called(const DataSplits& splits, const std::string& name);

// What a folder holds, in the layout of the one format that knows it and provides something of what is
// wanted, or of the one that is named; or what a file (data.yaml) names.
// Throws InputError where no format knows it, or several do.
DataSplits find_splits(const std::string& folder, const std::string& format = "",
                       const Contents& wanted = {.boxes = true});
// Likewise, but where no format knows the folder, the result's format is "".
DataSplits look_for_splits(const std::string& folder, const std::string& format = "",
                           const Contents& wanted = {.boxes = true});
// The nearest folders below in which look_for_splits finds something.
std::vector<std::string> sets_below(const std::string& folder, const std::string& format = "",
                                    const Contents& wanted = {.boxes = true});
// Tells each split of the others: formats that know classes by name only number those of all, and images that
// one list lacks may be named in another.
void join_classes(DataSplits& splits);
// Calls visit(split, name) for each split and each of its names, in the order in which these count.
template <class Visit>
void for_each_split_name(DataSplits& splits, Visit visit) {
  for (const SplitNames& split : split_names())
    for (const std::string& name : split.names) visit(splits.*split.split, name);
}
// Each split that is not known yet becomes what `find` finds in the first folder of its names in which it
// finds something.
void find_in_folders(const std::string& folder, DataSplits& splits,
                     const std::function<std::optional<DataPaths>(const std::string& own)>& find);
// Where there is no validation split, this fraction of the training images becomes one; which ones depends on
// the seed and their names alone. Returns a line that says so; "": nothing was drawn.
std::string draw_validation(DataSplits& splits, double share, uint64_t seed);
// A line about images of a set that are in the training set, too; "": there are none.
std::string remark_on_shared_images(const GroundTruth& training, const DataPaths& training_paths,
                                    const GroundTruth& truth, const DataPaths& paths);
// Lines about classes, by their names, that have objects in one of the two sets only.
std::vector<std::string> remarks_on_lone_classes(const GroundTruth& training, const GroundTruth& truth);
// All of it about a set next to its training set.
std::vector<std::string> remarks_on_split(const GroundTruth& training, const DataPaths& training_paths,
                                          const GroundTruth& truth, const DataPaths& paths);
// The images in an order that depends on the key and their names alone.
std::vector<const ImageInfo*> drawn_order(const GroundTruth& truth, uint64_t key);
// Leaves the images of which stays(id) says so, and their objects.
template <class Stays>
void keep_images(GroundTruth& truth, Stays stays) {
  std::erase_if(truth.images, [&](const ImageInfo& i) { return !stays(i.id); });
  std::erase_if(truth.annotations, [&](const Annotation& a) { return !stays(a.image_id); });
}
// The images of a split that is drawn, or all; at most paths.most of them.
GroundTruth part_of(GroundTruth truth, const DataPaths& paths);

}  // namespace saccade
