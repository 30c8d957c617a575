// The registries that a configuration is checked against, with the names that the recipes use: stand-ins for
// scripts/fuzz.sh, so that no layer is compiled.
#include "core/kernels/optimizer/optimizer.h"
#include "data/evaluation/evaluators.h"
#include "layers/attention.h"
#include "models/backbone.h"
#include "models/build.h"
#include "models/detection/class_loss.h"
#include "models/summary.h"
#include "train/config/config.h"
#include "train/config/task.h"
#include "train/inference/answerer.h"
#include "train/inference/predictor.h"
#include "train/loop/training_task.h"
#include "train/optimizers/schedule.h"
#include "train/report/run_metrics.h"

namespace saccade {
namespace {

template <class Spec>
Registry<Spec>& stand_in(const char* what, std::initializer_list<Spec> specs) {
  static Registry<Spec> registry(what);
  for (const Spec& spec : specs) registry.add(spec);
  return registry;
}

// Nothing of it is called but the checks, which find nothing.
class StandInTask : public Task {
 public:
  void check_split(const std::string&, const config::Split&) const override {}
  Contents needs(const Config&) const override { return {.boxes = true}; }
  UsualClasses usual_classes() const override { return {}; }
  std::string draw_target(Image&, const Batch&, size_t, const std::vector<std::string>&) const override {
    return "";
  }
  void check_classes(const Classes&, const std::string&) const override {}
  Classes unnamed_classes(int64_t) const override { return {}; }
  std::unique_ptr<TrainingTask> training(const Config&) const override { return nullptr; }
  std::vector<std::string> primary_metrics(const Config&) const override { return {}; }
  std::vector<MetricChart> charts() const override { return {}; }
  std::unique_ptr<Inferencer> inferencer(const LoadedModel&) const override { return nullptr; }
  Evaluation evaluate(const EvalArguments&, const LoadedModel&, const EvaluatorOptions&) const override {
    return {};
  }
  std::unique_ptr<Predictor> predictor(const PredictArguments&, const LoadedModel&) const override {
    return nullptr;
  }
  std::string report(Page&, const ReportOptions&) const override { return ""; }
  ModelSummary summarize(Module&, int64_t, int64_t) const override { return {}; }
};

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
Registry<RegisteredTask>& tasks() {
  static auto& all =
      stand_in<RegisteredTask>("task", {{.name = "detection", .task = std::make_shared<StandInTask>()},
                                        {.name = "classification", .task = std::make_shared<StandInTask>()}});
  return all;
}
const std::string& task_name(const Config& config) {
  return model_types().find(config.model().type(), "model.type").task;
}
const Task& task_of(const Config& config) { return *tasks().find(task_name(config)).task; }
Registry<kernels::OptimizerSpec>& kernels::optimizers() {
  static auto& all = stand_in<OptimizerSpec>("optimizer", {{.name = "adamw"}, {.name = "sgd"}});
  return all;
}

}  // namespace saccade
