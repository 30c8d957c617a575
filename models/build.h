// From configuration to model: the registry of model types, what `model.type` names. A model registers itself
// from its own file:
//
//   const bool detr_registered = model_types().add({.name = "detr", .summary = "...",
//   .task = "detection", ...});
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/runtime/registry.h"
#include "layers/args.h"
#include "models/classifier.h"
#include "models/detector.h"

namespace saccade {

class Inference;  // models/weights/inference.h

struct ModelSpec {
  std::string name;     // model.type
  std::string summary;  // one line: what it is and where it comes from
  std::string task;     // what it is trained for, by its name (train/config/task.h): "detection"
  std::string file;
  // model, criterion: the config sections of these names; classes: K. The parameters are not yet initialised.
  // Throws InputError naming the field that is wrong.
  std::shared_ptr<Module> (*build)(const Args& model, int64_t classes, const Args& criterion);
  std::vector<std::string> parts = {
      "transformer"};      // the sections of `model` that it reads besides the backbone's
  bool has_masks = false;  // predicts masks, and learns them: its data sets must have them
  // Sets the fields that the weights tell; false: they are of another model. Throws InputError when their
  // shapes contradict each other or their backbone is not known.
  bool (*infer)(Inference& weights) = nullptr;
  // Where its defaults differ from the schema's: the text of a configuration without lists. User over preset
  // over class loss (ClassLossSpec::preset) over schema; with another class loss than the preset's its
  // criterion does not count.
  const char* preset = "";

  bool reads(const std::string& part) const { return std::ranges::find(parts, part) != parts.end(); }
};

inline Registry<ModelSpec>& model_types() { return registry_of<ModelSpec>("model type"); }

// As ModelSpec::build, of the type that the section names. criterion: that of a classifier is not read.
inline std::shared_ptr<Module> build_model(const Args& model, int64_t classes, const Args& criterion = {}) {
  const ModelSpec& spec = model_types().find(model.get_string("type", ""), "model.type");
  auto built = spec.build(model, classes, criterion);
  model.finish(spec.summary);
  return built;
}
// A model as what its task works with: a Detector, a Classifier, a Segmenter. Throws Error for another.
template <class M, class AnyModule>
M& model_as(AnyModule& module) {
  auto* model = dynamic_cast<M*>(&module);
  SACCADE_CHECK(model != nullptr, "[model] {} is a model of another task", module.type_name());
  return *model;
}
// The same of a new one. Throws InputError.
template <class M>
std::shared_ptr<M> build_as(const Args& model, int64_t classes, const Args& criterion = {}) {
  auto built = std::dynamic_pointer_cast<M>(build_model(model, classes, criterion));
  if (!built)
    fail_input("{}.type: \"{}\", expected a model of another kind", model.path(),
               model.get_string("type", ""));
  return built;
}

}  // namespace saccade
