// What the configuration says of LW-DETR and RF-DETR (LW-DETR on DINOv2 with windows), and their registration
// without masks.
#include "models/build.h"

#include "models/lw_detr/lw_detr.h"
#include "models/lw_detr/weights.h"

namespace saccade {

void LwDetrOptions::read(const Args& model, int64_t num_classes, const Args& section) {
  const Args &t = model.get_section("transformer"), &own = model.get_section("lw_detr");
  SetDetectorOptions::read(t, section, num_classes);
  transformer = read_transformer_options(t);
  if (denoising.queries > 0)
    fail_input("{}.denoising: LW-DETR and RF-DETR have extra_query_groups in its place, expected none",
               t.path());
  if (transformer.encoder_layers != 0)
    fail_input("{}.encoder_layers: {}, but LW-DETR and RF-DETR have no encoder, expected 0", t.path(),
               transformer.encoder_layers);
  transformer.levels = t.get_int("levels");
  if (transformer.levels > 2)
    fail_input("{}.levels: {}, expected 1 or 2 (LW-DETR, RF-DETR)", t.path(), transformer.levels);
  transformer.norms_in_order = true;
  transformer.cross_heads = own.get_int("cross_heads");
  if (transformer.dim % transformer.cross_heads != 0)
    fail_input("{}.cross_heads: {}, expected a divisor of hidden_dim ({})", own.path(),
               transformer.cross_heads, transformer.dim);
  projector = {.dim = transformer.dim,
               .levels = transformer.levels,
               .blocks = own.get_int("projector_blocks"),
               .batch_norm = own.get_string("projector_norm") == "batch"};
}

namespace {

std::shared_ptr<Module> build_lw_detr(const Args& model, int64_t classes, const Args& criterion) {
  return build_lw_detr_of<LwDetr>(model, classes, criterion, "LW-DETR and RF-DETR without masks");
}

[[maybe_unused]] const bool lw_detr_registered =
    model_types().add({.name = "lw_detr",
                       .summary = "LW-DETR (Chen et al. 2024)",
                       .task = "detection",
                       .build = build_lw_detr,
                       .parts = {"transformer", "lw_detr"},
                       .infer = infer_lw_detr,
                       .preset = SACCADE_LW_DETR_PRESET("lw_detr { projector_norm: 'batch' }")});

[[maybe_unused]] const bool rf_detr_registered =
    model_types().add({.name = "rf_detr",
                       .summary = "RF-DETR (Robinson et al. 2025)",
                       .task = "detection",
                       .build = build_lw_detr,
                       .parts = {"transformer", "lw_detr"},
                       .infer = infer_rf_detr,
                       .preset = SACCADE_LW_DETR_PRESET("")});

}  // namespace
}  // namespace saccade
