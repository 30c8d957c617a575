#include "train/commands/predict_files.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/tensor/error.h"
#include "data/loading/loader.h"
#include "train/config/options.h"

namespace saccade {

namespace fs = std::filesystem;

std::vector<PredictInput> collect_inputs(const std::vector<std::string>& arguments) {
  std::vector<PredictInput> inputs;
  for (const std::string& argument : arguments) {
    if (!fs::is_directory(argument)) {
      inputs.push_back({argument, "", ""});
      continue;
    }
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(argument))
      if (entry.is_regular_file() && has_image_extension(entry.path().string()))
        files.push_back(entry.path().string());
    if (files.empty())
      fail_input("{}: no images in this folder, expected *.jpg, *.png or the like", argument);
    std::sort(files.begin(), files.end());
    for (std::string& file : files) inputs.push_back({std::move(file), "", ""});
  }
  std::map<std::string, int> count;
  for (const PredictInput& input : inputs) ++count[fs::path(input.path).filename().string()];
  std::set<std::string> taken;
  for (PredictInput& input : inputs) {
    std::string name = fs::path(input.path).filename().string(), stem = fs::path(input.path).stem().string();
    input.name = count[name] > 1 ? input.path : name;
    input.picture = stem + ".png";
    for (int i = 2; !taken.insert(input.picture).second; ++i)
      input.picture = fmt::format("{}_{}.png", stem, i);
    read_image_size(input.path);  // broken headers end the command before anything is computed
  }
  return inputs;
}

Batch one_image_batch(const Image& original, const Config& config) {
  Sample sample;
  sample.image = original;
  Rng unused(0);
  sample = augment(std::move(sample), eval_augment(config), unused);
  Target target = make_target(sample, {original.height, original.width});
  return collate({std::move(sample)}, {std::move(target)}, config.data().pad_multiple());
}

Workspace::Workspace(const fs::path& output) : output_(output), existed_(fs::exists(output)) {
  if (existed_ && !fs::is_directory(output)) fail_input("{}: is a file, expected a folder", output.string());
  path_ = output / fmt::format(".predict-{}", getpid());
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) fail_input("{}: cannot create the folder: {}", output.string(), error.message());
}

Workspace::~Workspace() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (!existed_ && fs::is_empty(output_, ignored)) fs::remove(output_, ignored);
}

}  // namespace saccade
