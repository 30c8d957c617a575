#include "models/build.h"

namespace saccade {

std::shared_ptr<Module> build_model(const Args& model, int64_t classes, const Args& criterion) {
  const ModelSpec& spec = model_types().find(model.get_string("type", ""), "model.type");
  auto built = spec.build(model, classes, criterion);
  model.finish(spec.summary);
  return built;
}

}  // namespace saccade
