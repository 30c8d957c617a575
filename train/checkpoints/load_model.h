// Rebuilds a trained model from its checkpoint alone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor/error.h"
#include "data/formats/dataset.h"
#include "models/build.h"
#include "train/config/config.h"

namespace saccade {

// The names and shapes of a model, without allocated values.
std::shared_ptr<Module> sketch_model(const BuildArgs& args, int64_t classes);
// Builds the model of a configuration for K classes; its parameters are not initialised yet. Throws
// InputError naming the wrong field, or saying that the machine has too little memory for the parameters.
std::shared_ptr<Module> build_model(const Config& config, int64_t classes);
template <class M>
std::shared_ptr<M> build_as(const Config& config, int64_t classes) {
  auto built = std::dynamic_pointer_cast<M>(build_model(config, classes));
  if (!built) fail_input("model.type: \"{}\", expected {}", config.model().type(), M::kKind);
  return built;
}

struct LoadedModel {
  // In evaluation mode, with the averaged weights if the file has them.
  std::shared_ptr<Module> module;
  Config config;
  std::vector<std::string> class_names;  // [K]
  std::vector<int64_t> category_ids;     // [K], of the training annotations; a classifier has none
  std::vector<std::string> notes = {};   // about edits that change nothing, and slow f32; one line each

  template <class M>
  M& as() const {
    return model_as<M>(*module);
  }
};

// Throws InputError naming the file if it is missing, damaged, not a checkpoint of ours or does not fit its
// own configuration. `precision` (f32, tf32, bf16, auto) replaces the configuration's, unless it is empty.
// `image_size` (--image-size) replaces the evaluation size unless it is 0, and then the edits of `sets`
// (--set) apply, which may change only fields that inference alone depends on (ConfigChange::of_inference).
LoadedModel load_trained_model(const std::string& checkpoint, Device device = Device::kCpu,
                               const std::string& precision = "", std::vector<std::string> sets = {},
                               int64_t image_size = 0);

// Runs a function that computes with the model of a checkpoint. Predictions that are not finite are blamed on
// that file (InputError). An out-of-memory error names the size of the images, which the file may have
// chosen, and the settings (`less`) that need less memory.
void with_model_of(const std::string& checkpoint, ImageSize size, const char* less,
                   const std::function<void()>& run);

// Throws InputError unless the classes of the model are categories of the data set it is evaluated on, by id
// and by name (classes that stand for no category excepted).
void check_categories(const Dataset& dataset, const std::vector<int64_t>& category_ids,
                      const std::vector<std::string>& class_names, const std::string& model);

}  // namespace saccade
