// The data set that a model is evaluated on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/formats/joining/united_paths.h"
#include "train/checkpoints/load_model.h"
#include "train/inference/arguments.h"

namespace saccade {

// Images that cannot be read are treated as in training. Throws InputError where neither --images nor a
// folder with the split is given. training: gets the training images of the same folders,
// where the images are others of them.
DataPaths eval_paths(const EvalArguments& arguments, const LoadedModel& model,
                     std::optional<DataPaths>* training = nullptr);
// What there is to say about a set that a model is judged by, a line each: images that are among those which
// the model's configuration names for training, or else among these; classes with objects that the model
// lacks; names of classes that are there twice or hardly differ.
std::vector<std::string> notes_on_judged(const Dataset& set, const DataPaths& paths, const LoadedModel& model,
                                         const std::optional<DataPaths>& training = {});
// What the folders of --data hold, united; what was passed over of several is printed. Throws InputError
// where other flags say the same.
DataSplits united_splits(const std::vector<std::string>& data, const std::string& annotations,
                         const std::string& images, const PlaceOptions& options);
// Opens the set that a model is judged by, and prints what there is to say about it.
std::shared_ptr<const Dataset> open_judged(const DataPaths& paths, const LoadedModel& model,
                                           const std::optional<DataPaths>& training = {});
// An image of a set that was read before; nothing where it cannot be read any more.
std::optional<Image> open_picture(const Dataset& set, int64_t index);
// The model's classes that stand for a category: what formats that know classes by their names number them
// by.
std::vector<Category> categories_of(const LoadedModel& model);

}  // namespace saccade
