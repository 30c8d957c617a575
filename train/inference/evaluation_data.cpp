#include "train/inference/evaluation_data.h"

#include <fmt/ranges.h>

#include "core/tensor/error.h"
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
    fail_input("--data: {} beside --annotations or --images, expected only one of them",
               fmt::join(data, " + "));
  DataSplits splits = find_united(data, options);
  if (data.size() > 1)
    for (const std::string& note : splits.notes) print_line("note: {}", note);
  return splits;
}

DataPaths eval_paths(const EvalArguments& arguments, const LoadedModel& model) {
  const Config& config = model.config;
  DataPaths paths{.annotations = arguments.annotations, .images = arguments.images};
  if (!arguments.data.empty()) {
    const DataSplits splits =
        united_splits(arguments.data, arguments.annotations, arguments.images, place_options(config));
    const auto& split = split_called(splits, arguments.split);
    if (!split) fail_input("{}: has no {} images", fmt::join(arguments.data, " + "), arguments.split);
    paths = *split;
  } else if (arguments.images.empty()) {
    fail_input("--images: not given, expected the folder of the images, or --data");
  }
  if (has_several_sets(config)) paths = known_by_names(paths);
  set_needs(paths, config);
  paths.categories = categories_of(model);
  paths.choice = class_choice(config);
  paths.allow_outside = arguments.allow_outside;
  paths.skip_bad_images = config.data().bad_images() == config::skip;
  return paths;
}

}  // namespace saccade
