// Backbones: images in, a pyramid of feature maps out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/runtime/registry.h"
#include "layers/args.h"
#include "layers/module.h"
#include "models/classifier.h"

namespace saccade {

class Inference;  // models/weights/inference.h

class Backbone : public Module {
 public:
  // images [N, H, W, 3] -> the chosen stages' maps [N, H_i, W_i, C_i], finest first
  virtual std::vector<Var> forward(const Var& images) = 0;
  virtual std::vector<int64_t> channels() const = 0;  // C_i
  // Images whose sides are multiples of this are taken as they are; others it fills up with zeros,
  // which its maps cover too.
  virtual int64_t multiple() const { return 1; }
};

// A backbone registers itself from its own file (SACCADE_REGISTER_BACKBONE).
struct BackboneSpec {
  std::string name;  // model.backbone.type
  std::string file;
  // From the section model.backbone, without its `type`. `default_outputs`: the stages that the model wants.
  std::shared_ptr<Backbone> (*build)(const Args& args, const std::vector<int64_t>& default_outputs);
  // With the class head of its official model; null: there is none.
  std::shared_ptr<Classifier> (*build_classifier)(const Args& args, int64_t classes) = nullptr;
  // Sets the fields of model.backbone that the weights under a prefix tell; false:
  // they are of another backbone.
  bool (*infer)(Inference& weights, const std::string& prefix) = nullptr;
  // Reads the fields of the section that the schema has besides `outputs` and `attention`;
  // others read `arg` alone.
  bool typed_fields = false;
  // As infer, of a classifier with that head: the classes and the size of its images too.
  bool (*infer_classifier)(Inference& weights) = nullptr;
};

inline Registry<BackboneSpec>& backbones() { return registry_of<BackboneSpec>("backbone"); }

// From the config section model.backbone (see configs/saccade.proto).
std::shared_ptr<Backbone> build_backbone(const Args& args, const std::vector<int64_t>& default_outputs);
// The backbone that the weights of a detector have under a prefix. Throws InputError when no rule knows it.
void infer_backbone(Inference& weights, const std::string& prefix);

// SACCADE_REGISTER_BACKBONE(name, build[, build_classifier[, infer[, typed_fields[, infer_classifier]]]]):
// as in BackboneSpec
#define SACCADE_REGISTER_BACKBONE(name, ...)             \
  [[maybe_unused]] static const bool name##_registered = \
      ::saccade::backbones().add({#name, __FILE__, __VA_ARGS__})

}  // namespace saccade
