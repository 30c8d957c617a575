// A trained model from its checkpoint alone.
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

// The names and shapes of a model, without memory for them.
std::shared_ptr<Module> sketch_model(const BuildArgs& args, int64_t classes);
// The model of a configuration, for K classes; its parameters are not yet initialised. Throws InputError
// naming the field that is wrong, or saying that the machine has too little memory for the parameters.
std::shared_ptr<Module> build_model(const Config& config, int64_t classes);
template <class M>
std::shared_ptr<M> build_as(const Config& config, int64_t classes) {
  auto built = std::dynamic_pointer_cast<M>(build_model(config, classes));
  if (!built) fail_input("model.type: \"{}\", expected a model of another kind", config.model().type());
  return built;
}

struct LoadedModel {
  // In evaluation mode, with the averaged weights where the file has them.
  std::shared_ptr<Module> module;
  Config config;
  std::vector<std::string> class_names;  // [K]
  std::vector<int64_t> category_ids;     // [K], of the annotations it was trained on; a classifier has none
  std::vector<std::string> notes = {};   // on edits that change nothing, a line each

  template <class M>
  M& as() const {
    return model_as<M>(*module);
  }
};

// Throws InputError naming the file when it is missing, damaged, no checkpoint of ours or does not fit its
// own config. `precision` (f32, tf32, bf16, auto) replaces the configuration's; "" leaves that. So
// do the edits of `sets` (--set), which may touch what inference alone depends on
// (ConfigChange::of_inference);
// before them so does `image_size` (--image-size), where it is not 0.
LoadedModel load_trained_model(const std::string& checkpoint, Device device = Device::kCpu,
                               const std::string& precision = "", std::vector<std::string> sets = {},
                               int64_t image_size = 0);

// Runs what computes with the model of a checkpoint. Predictions that are not finite are that file's fault
// (InputError), and a shortage of memory names the size of the images, which the file may have chosen,
// and what needs less of it.
void with_model_of(const std::string& checkpoint, ImageSize size, const char* less,
                   const std::function<void()>& run);

// The classes of a model must be categories of the data set it is evaluated on, by id and by name (those
// that stand for no category excepted); else InputError.
void check_categories(const Dataset& dataset, const std::vector<int64_t>& category_ids,
                      const std::vector<std::string>& class_names, const std::string& model);

}  // namespace saccade
