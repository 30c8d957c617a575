#include "models/build.h"

#include "core/error.h"
#include "models/deformable_detr.h"
#include "models/detr.h"

namespace saccade {

std::shared_ptr<Detector> build_detector(const Args& model, int64_t num_classes) {
  std::string type = model.get_choice("type", "deformable_detr", {"deformable_detr", "detr"});
  return type == "detr" ? build_detr(model, num_classes) : build_deformable_detr(model, num_classes);
}

std::shared_ptr<Classifier> build_classifier(const Args& model, int64_t) {
  // Each family of backbones adds its line here when it can classify.
  fail_input("{}.backbone.type: no backbone can classify yet", model.path());
}

}  // namespace saccade
