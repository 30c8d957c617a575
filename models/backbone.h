// Backbones turn images into a pyramid of feature maps.
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
  // images [N, H, W, 3] -> the maps of the chosen stages [N, H_i, W_i, C_i], finest first
  virtual std::vector<Var> forward(const Var& images) = 0;
  virtual std::vector<int64_t> channels() const = 0;  // C_i
  // Images whose sides are multiples of this are used unchanged; the backbone pads others with zeros, and its
  // maps cover the padding too.
  virtual int64_t multiple() const { return 1; }
};

// A backbone registers itself from its own file (SACCADE_REGISTER_BACKBONE).
struct BackboneSpec {
  std::string name;  // model.backbone.type
  std::string file;
  // Builds it from model.backbone without its `type`. `default_outputs`: the stages that the model needs.
  std::shared_ptr<Backbone> (*build)(const Args& args, const std::vector<int64_t>& default_outputs);
  // Builds the backbone with the class head of its official model; null if there is none.
  std::shared_ptr<Classifier> (*build_classifier)(const Args& args, int64_t classes) = nullptr;
  // Sets the fields of model.backbone that follow from the weights under a prefix; returns false if
  // the weights belong to another backbone.
  bool (*infer)(Inference& weights, const std::string& prefix) = nullptr;
  // True if the backbone reads fields that the schema gives the section besides `outputs` and `attention`;
  // otherwise it reads only `arg`.
  bool typed_fields = false;
  // Like infer, for a classifier with that head; also sets the number of classes and the image size.
  bool (*infer_classifier)(Inference& weights) = nullptr;
};

inline Registry<BackboneSpec>& backbones() { return registry_of<BackboneSpec>("backbone"); }

// Builds a backbone from the config section model.backbone (see configs/saccade.proto).
std::shared_ptr<Backbone> build_backbone(const Args& args, const std::vector<int64_t>& default_outputs);
// Infers the backbone of a detector from its weights under a prefix. Throws InputError if no rule knows it.
void infer_backbone(Inference& weights, const std::string& prefix);

// SACCADE_REGISTER_BACKBONE(name, build[, build_classifier[, infer[, typed_fields[, infer_classifier]]]]);
// the arguments are the fields of BackboneSpec
#define SACCADE_REGISTER_BACKBONE(name, ...)             \
  [[maybe_unused]] static const bool name##_registered = \
      ::saccade::backbones().add({#name, __FILE__, __VA_ARGS__})

}  // namespace saccade
