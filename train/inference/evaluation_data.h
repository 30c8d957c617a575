// The data set that a model is evaluated on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/formats/joining/united_paths.h"
#include "train/checkpoints/load_model.h"
#include "train/inference/arguments.h"

namespace saccade {

// Returns the set that the arguments name. Unreadable images are treated as in training. Throws InputError if
// neither --images nor a folder with the split is given. `training` gets the training images of the same
// folders, if these differ from the evaluated images.
DataPaths eval_paths(const EvalArguments& arguments, const LoadedModel& model,
                     std::optional<DataPaths>* training = nullptr);
// Returns remarks on a set that a model is judged by, one line each: images that are among those named for
// training by the model's configuration, or otherwise among `training`; classes with objects that the model
// lacks; names of classes that appear twice or hardly differ.
std::vector<std::string> notes_on_judged(const Dataset& set, const DataPaths& paths, const LoadedModel& model,
                                         const std::optional<DataPaths>& training = {});
// Returns what the folders of --data hold, merged; prints what it ignored if there are several. Throws
// InputError if other flags name data too.
DataSplits united_splits(const std::vector<std::string>& data, const std::string& annotations,
                         const std::string& images, const PlaceOptions& options);
// Opens the set that a model is judged by, and prints the remarks on it.
std::shared_ptr<const Dataset> open_judged(const DataPaths& paths, const LoadedModel& model,
                                           const std::optional<DataPaths>& training = {});
// Opens an image of a set that was read before; returns nothing if it cannot be read any more.
std::optional<Image> open_picture(const Dataset& set, int64_t index);
// The model's classes that stand for a category: formats that identify classes by name number them in this
// order.
std::vector<Category> categories_of(const LoadedModel& model);

}  // namespace saccade
