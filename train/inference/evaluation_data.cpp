#include "train/inference/evaluation_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/listing.h"
#include "data/formats/splits.h"
#include "train/config/options.h"
#include "train/config/task.h"
#include "train/logs/print.h"

namespace saccade {

std::vector<Category> categories_of(const LoadedModel& model) {
  std::vector<Category> categories;
  for (size_t k = 0; k < model.category_ids.size(); ++k)
    if (model.class_names[k] != kNoCategory)
      categories.push_back({model.category_ids[k], model.class_names[k]});
  return categories;
}

DataSplits united_splits(const std::vector<std::string>& data, const std::string& annotations,
                         const std::string& images, const PlaceOptions& options) {
  if (!annotations.empty() || !images.empty())
    fail_input("--data and {} cannot be combined", annotations.empty() ? "--images" : "--annotations");
  DataSplits splits = find_united(data, options);
  if (data.size() > 1)
    for (const std::string& note : splits.notes) print_line("note: {}", note);
  return splits;
}

DataPaths eval_paths(const EvalArguments& arguments, const LoadedModel& model,
                     std::optional<DataPaths>* training) {
  const Config& config = model.config;
  DataPaths paths{.annotations = arguments.annotations, .images = arguments.images};
  if (!arguments.data.empty()) {
    const DataSplits splits =
        united_splits(arguments.data, arguments.annotations, arguments.images, place_options(config));
    const auto& split = split_called(splits, arguments.split);
    if (!split) fail_input("{}: has no {} images", fmt::join(arguments.data, " + "), arguments.split);
    if (arguments.split != "test")
      for (const std::string& drawn : splits.drawn) print_line("note: {}", drawn);
    paths = *split;
    if (training != nullptr && splits.train && arguments.split != "train") {
      *training = splits.train;
      set_needs(**training, config);
      (*training)->allow_outside = arguments.allow_outside;
    }
  } else if (arguments.images.empty()) {
    fail_input("--images: not given; give the folder of the images, or --data FOLDER");
  }
  if (has_several_sets(config)) paths = known_by_names(paths);
  set_needs(paths, config);
  paths.categories = categories_of(model);
  paths.choice = class_choice(config);
  paths.allow_outside = arguments.allow_outside;
  paths.skip_bad_images = config.data().bad_images() == config::skip;
  return paths;
}

namespace {

// The training set of the configuration, if it still exists.
std::optional<DataPaths> training_of(const Config& config) {
  try {
    return data_splits(config).train;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// A remark on images that the set shares with the training set; empty if none, or if that cannot be read.
std::string remark_on_training(const Dataset& set, const DataPaths& paths,
                               const std::optional<DataPaths>& training) {
  if (!training) return "";
  try {
    return remark_on_shared_images(read_ground_truth(*training), *training, set.ground_truth(), paths);
  } catch (const InputError&) {
    return "";
  }
}

// A remark on classes with objects that the model lacks, in a list with its own ids; empty if none.
std::string remark_on_unknown_classes(const GroundTruth& truth, const LoadedModel& model) {
  std::map<int64_t, int64_t> objects;
  for (const Annotation& a : truth.annotations) objects[a.category_id] += !a.iscrowd;
  std::vector<std::string> unknown;
  for (const Category& c : truth.categories)
    if (objects[c.id] > 0 && std::ranges::find(model.category_ids, c.id) == model.category_ids.end())
      unknown.push_back(fmt::format("\"{}\" {}", printable(c.name), objects[c.id]));
  if (unknown.empty()) return "";
  return fmt::format("{} objects here, but the model lacks {} (metrics of 0): {}",
                     count_of(std::ssize(unknown), "class has", "classes have"),
                     unknown.size() == 1 ? "it" : "them", some_of(unknown, 10));
}

}  // namespace

std::vector<std::string> notes_on_judged(const Dataset& set, const DataPaths& paths, const LoadedModel& model,
                                         const std::optional<DataPaths>& training) {
  std::string shared = remark_on_training(set, paths, training_of(model.config));
  if (shared.empty()) shared = remark_on_training(set, paths, training);
  std::vector<std::string> remarks;
  if (!shared.empty()) remarks.push_back(std::move(shared));
  if (!model.category_ids.empty())
    if (std::string unknown = remark_on_unknown_classes(set.ground_truth(), model); !unknown.empty())
      remarks.push_back(std::move(unknown));
  for (std::string& remark : remarks_on_names(set.ground_truth().categories))
    remarks.push_back(std::move(remark));
  for (std::string& remark : remarks) remark = fmt::format("note: {}: {}", set.name(), remark);
  return remarks;
}

std::shared_ptr<const Dataset> open_judged(const DataPaths& paths, const LoadedModel& model,
                                           const std::optional<DataPaths>& training) {
  std::vector<std::string> notes;
  auto set = open_dataset(paths, LabelScheme::kContiguous, &notes);
  for (std::string& note : notes_on_judged(*set, paths, model, training)) notes.push_back(std::move(note));
  for (const std::string& note : notes) print_line(note);
  return set;
}

std::optional<Image> open_picture(const Dataset& set, int64_t index) {
  try {
    return read_image(set.image_path(index));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace saccade
