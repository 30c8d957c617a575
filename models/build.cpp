#include "models/build.h"

#include "models/deformable_detr.h"

namespace saccade {

std::shared_ptr<Detector> build_detector(const Args& model, int64_t num_classes) {
  model.get_choice("type", "deformable_detr", {"deformable_detr"});
  return build_deformable_detr(model, num_classes);
}

}  // namespace saccade
