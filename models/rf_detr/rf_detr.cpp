// RF-DETR (Robinson et al. 2025): LW-DETR on DINOv2 with windows.
#include "models/build.h"
#include "models/lw_detr/lw_detr.h"
#include "models/rf_detr/weights.h"

namespace saccade {
namespace {

std::shared_ptr<Module> build_rf_detr(const Args& model, int64_t classes, const Args& criterion) {
  return build_lw_detr_of<LwDetr>(model, classes, criterion, "LW-DETR and RF-DETR without masks");
}

[[maybe_unused]] const bool rf_detr_registered =
    model_types().add({.name = "rf_detr",
                       .summary = "RF-DETR (Robinson et al. 2025)",
                       .task = "detection",
                       .build = build_rf_detr,
                       .parts = {"transformer", "lw_detr"},
                       .infer = infer_rf_detr,
                       .preset = SACCADE_LW_DETR_PRESET("")});

}  // namespace
}  // namespace saccade
