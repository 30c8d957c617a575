#include "models/build.h"

namespace saccade {
namespace {

std::shared_ptr<Module> build_type(const Args& model, const char* fallback, int64_t classes,
                                   const Args& criterion) {
  const ModelSpec& spec = model_types().find(model.get_string("type", fallback), "model.type");
  auto built = spec.build(model, classes, criterion);
  model.finish(spec.summary);
  return built;
}

template <class M>
std::shared_ptr<M> build_as(const Args& model, const char* fallback, int64_t classes, const Args& criterion) {
  auto built = std::dynamic_pointer_cast<M>(build_type(model, fallback, classes, criterion));
  if (!built)
    fail_input("{}.type: \"{}\", expected a model of another kind", model.path(),
               model.get_string("type", ""));
  return built;
}

}  // namespace

Registry<ModelSpec>& model_types() {
  static Registry<ModelSpec> registry("model type");
  return registry;
}

std::shared_ptr<Module> build_model(const Args& model, int64_t classes, const Args& criterion) {
  return build_type(model, "deformable_detr", classes, criterion);
}

std::shared_ptr<Detector> build_detector(const Args& model, int64_t classes, const Args& criterion) {
  return build_as<Detector>(model, "deformable_detr", classes, criterion);
}

std::shared_ptr<Classifier> build_classifier(const Args& model, int64_t classes) {
  return build_as<Classifier>(model, "classifier", classes, {});
}

}  // namespace saccade
