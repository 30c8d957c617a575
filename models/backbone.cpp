#include "models/backbone.h"

#include "models/build.h"
#include "models/weights/inference.h"

namespace saccade {
namespace {

const BackboneSpec& spec_of(const Args& section) {
  return backbones().find(section.get_string("type", "resnet"), section.path() + ".type");
}

std::shared_ptr<Module> build_backbone_classifier(const Args& model, int64_t classes, const Args&) {
  const Args& section = model.get_section("backbone");
  const BackboneSpec& spec = spec_of(section);
  if (!spec.build_classifier)
    fail_input("{}.type: {} has no class head, expected a backbone that has one", section.path(), spec.name);
  return spec.build_classifier(section, classes);
}

bool infer_classifier(Inference& weights) {
  for (const auto& [name, spec] : backbones().all()) {
    if (!spec.infer_classifier || !spec.infer_classifier(weights)) continue;
    weights.set("model.backbone.type", name);
    return true;
  }
  return false;
}

[[maybe_unused]] const bool classifier_registered =
    model_types().add({.name = "classifier",
                       .summary = "A backbone with the class head of its official model",
                       .task = "classification",
                       .build = build_backbone_classifier,
                       .parts = {},
                       .infer = infer_classifier});

}  // namespace

void infer_backbone(Inference& weights, const std::string& prefix) {
  for (const auto& [name, spec] : backbones().all()) {
    if (!spec.infer || !spec.infer(weights, prefix)) continue;
    return weights.set("model.backbone.type", name);
  }
  std::string known;
  for (const auto& [name, spec] : backbones().all())
    if (spec.infer) known += (known.empty() ? "" : ", ") + name;
  fail_input("{}: no tensors of a known backbone under \"{}\" ({}), expected --config with its model",
             weights.path(), prefix, known);
}

std::shared_ptr<Backbone> build_backbone(const Args& section, const std::vector<int64_t>& default_outputs) {
  return spec_of(section).build(section, default_outputs);
}

}  // namespace saccade
