// Builds models from their configuration, with a registry of the model types that `model.type` names. A model
// registers itself from its own file:
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
  std::string summary;  // one line: what the model is and where it comes from
  std::string task;     // the name of the task it is trained for (train/config/task.h): "detection"
  std::string file;
  // model, criterion: the config sections of these names; classes: K. The parameters are not yet initialised.
  // Throws InputError naming the field that is wrong.
  std::shared_ptr<Module> (*build)(const Args& model, int64_t classes, const Args& criterion);
  std::vector<std::string> parts = {
      "transformer"};      // the sections of `model` that it reads besides the backbone
  bool has_masks = false;  // predicts and learns masks: its data sets must have them
  // Sets the fields that follow from the weights; returns false if they belong to another model. Throws
  // InputError if their shapes contradict each other or their backbone is unknown.
  bool (*infer)(Inference& weights) = nullptr;
  // The defaults that differ from the schema's, as the text of a configuration without lists. Precedence:
  // user, preset, class loss (ClassLossSpec::preset), schema. If another class loss than the preset's is
  // chosen, the preset's criterion is ignored.
  const char* preset = "";

  bool reads(const std::string& part) const { return std::ranges::find(parts, part) != parts.end(); }
};

inline Registry<ModelSpec>& model_types() { return registry_of<ModelSpec>("model type"); }

// Calls ModelSpec::build of the type that the section names. Classifiers do not read `criterion`.
inline std::shared_ptr<Module> build_model(const Args& model, int64_t classes, const Args& criterion = {}) {
  const ModelSpec& spec = model_types().find(model.get_string("type", ""), "model.type");
  auto built = spec.build(model, classes, criterion);
  model.finish(spec.summary);
  return built;
}
// Casts a model to its task's interface: Detector, Classifier or Segmenter. Throws Error if it has another.
template <class M, class AnyModule>
M& model_as(AnyModule& module) {
  auto* model = dynamic_cast<M*>(&module);
  SACCADE_CHECK(model != nullptr, "[model] {} is a model for another task", module.type_name());
  return *model;
}
// Builds a model and casts it likewise. Throws InputError.
template <class M>
std::shared_ptr<M> build_as(const Args& model, int64_t classes, const Args& criterion = {}) {
  auto built = std::dynamic_pointer_cast<M>(build_model(model, classes, criterion));
  if (!built)
    fail_input("{}.type: \"{}\", expected {}", model.path(), model.get_string("type", ""), M::kKind);
  return built;
}

}  // namespace saccade
