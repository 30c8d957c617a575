// The registries that a configuration is checked against, with the names that the recipes use: stand-ins for scripts/fuzz.sh, so that
// no layer is compiled.
#include "core/kernels/optimizer/optimizer.h"
#include "layers/attention.h"
#include "models/backbone.h"
#include "models/build.h"
#include "models/detection/class_loss.h"
#include "train/config/config.h"
#include "train/config/task.h"
#include "train/optimizers/schedule.h"

namespace saccade {
namespace {

template <class Spec>
Registry<Spec>& stand_in(const char* what, std::initializer_list<Spec> specs) {
  static Registry<Spec> registry(what);
  for (const Spec& spec : specs) registry.add(spec);
  return registry;
}

}  // namespace

Registry<AttentionSpec>& attention_layers() {
  static auto& all = stand_in<AttentionSpec>("attention", {{.name = "ms_deform_attn"}});
  return all;
}
Registry<BackboneSpec>& backbones() {
  static auto& all =
      stand_in<BackboneSpec>("backbone", {{.name = "resnet", .typed_fields = true}, {.name = "swin"}});
  return all;
}
Registry<ModelSpec>& model_types() {
  static auto& all = stand_in<ModelSpec>(
      "model type", {{.name = "deformable_detr", .task = "detection"},
                     {.name = "classifier", .task = "classification", .parts = {}},
                     {.name = "rt_detr",
                      .task = "detection",
                      .preset = "model { transformer { dropout: 0 } } criterion { class_loss: varifocal }"}});
  return all;
}
Registry<ClassLossSpec>& class_losses() {
  static auto& all =
      stand_in<ClassLossSpec>("class loss", {{.name = "focal"},
                                             {.name = "softmax", .preset = "cost_class: 1"},
                                             {.name = "varifocal", .preset = "focal_alpha: 0.75"},
                                             {.name = "mal"},
                                             {.name = "ia_bce"}});
  return all;
}
Registry<ScheduleSpec>& schedules() {
  static auto& all =
      stand_in<ScheduleSpec>("schedule", {{.name = "cosine", .needs_end = true}, {.name = "step"}});
  return all;
}
Registry<TaskSpec>& training_tasks() {
  static auto& all =
      stand_in<TaskSpec>("task", {{.name = "detection",
                                   .check = [](const Config&) {},
                                   .check_split = [](const std::string&, const config::Split&) {}},
                                  {.name = "classification",
                                   .check = [](const Config&) {},
                                   .check_split = [](const std::string&, const config::Split&) {}}});
  return all;
}
const TaskSpec& task_of(const Config& config) {
  return training_tasks().find(model_types().find(config.model().type(), "model.type").task);
}
Registry<kernels::OptimizerSpec>& kernels::optimizers() {
  static auto& all = stand_in<OptimizerSpec>("optimizer", {{.name = "adamw"}, {.name = "sgd"}});
  return all;
}

}  // namespace saccade
