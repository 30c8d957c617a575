// Detection: objects in boxes.

#include "train/tasks/detection/detection.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/images/draw.h"
#include "models/build.h"
#include "models/detector.h"
#include "models/summary.h"
#include "train/config/options.h"
#include "train/report/run_metrics.h"
#include "train/tasks/detection/runner.h"

namespace saccade {
namespace {

class DetectionTask final : public DetectionParts {
 public:
  void check(const Config& config) const override {
    evaluator_of(config);
    if (const double part = config.data().val_crop_pct(); part > 0)
      fail_input(
          "data.val_crop_pct: {} cuts the centre out of a classifier's images, expected 0 for a detector, whose boxes refer to the whole image",
          part);
    const config::Mix& mix = config.data().mix();
    if (mix.mixup_alpha() > 0 || mix.cutmix_alpha() > 0)
      fail_input("data.mix: mixes images of one class each, expected model.type \"classifier\", got \"{}\"",
                 config.model().type());
  }
  void check_split(const std::string& field, const config::Split& split) const override {
    if (!split.format().empty()) find_format(split.format(), {.boxes = true}, field + ".format");
    need(field + ".annotations", split.annotations(), "an annotation file (COCO JSON), or data.folder");
    need(field + ".images", split.images(), "the folder of the images");
  }
  std::vector<std::string> own_fields() const override {
    return {"criterion.class_loss",         "criterion.class_weight",
            "criterion.bbox_weight",        "criterion.giou_weight",
            "criterion.focal_alpha",        "criterion.focal_gamma",
            "criterion.no_object_weight",   "criterion.cost_class",
            "criterion.cost_bbox",          "criterion.cost_giou",
            "criterion.cost_alpha",         "criterion.cost_gamma",
            "criterion.extra_group_repeat", "data.labels",
            "eval.max_detections",          "eval.nms"};
  }

  Contents needs(const Config& config) const override { return {.boxes = true, .masks = has_masks(config)}; }
  // The largest category id plus one, as in the official models.
  UsualClasses usual_classes() const override { return {91, "COCO"}; }
  std::string draw_target(Image& image, const Batch& batch, size_t n,
                          const std::vector<std::string>& class_names) const override {
    const Target& target = batch.targets.at(n);
    std::vector<Instance> drawn = target.instances;
    const double x_scale = static_cast<double>(target.width) / static_cast<double>(target.frame.width),
                 y_scale = static_cast<double>(target.height) / static_cast<double>(target.frame.height);
    for (Instance& i : drawn) {
      i.box = scaled(i.box, x_scale, y_scale);
      i.score = -1;
      if (i.mask)
        i.mask = std::make_shared<const Mask>(
            i.mask->resize({target.height, target.width}).crop(0, 0, {image.height, image.width}));
    }
    draw_boxes(image, drawn, class_names);
    return count_of(std::ssize(drawn), "object", "objects");
  }

  Classes classes_of_weights(Config& config, const std::vector<std::string>& labels,
                             const std::string& annotations, std::vector<std::string>& notes) const override {
    return annotations.empty() ? classes_of_detector(config, labels, notes)
                               : classes_of_annotations(config, annotations);
  }

  std::vector<MetricChart> charts() const override {
    return {
        {.title = "Validation", .metrics = {{"AP", "AP"}, {"AP50", "AP50"}, {"AP75", "AP75"}}},
        {.title = "AP by size",
         .metrics = {{"AP_small", "small"}, {"AP_medium", "medium"}, {"AP_large", "large"}}},
        {.title = "AP by class", .prefix = "AP/", .things = "classes"},
        {.title = "Validation, masks",
         .metrics = {{"segm_AP", "AP"}, {"segm_AP50", "AP50"}, {"segm_AP75", "AP75"}}},
        {.title = "AP by size, masks",
         .metrics = {{"segm_AP_small", "small"}, {"segm_AP_medium", "medium"}, {"segm_AP_large", "large"}}},
        {.title = "AP by class, masks", .prefix = "segm_AP/", .things = "classes"},
    };
  }

  std::unique_ptr<Inferencer> inferencer(const LoadedModel& model) const override {
    return std::make_unique<DetectorInferencer>(model);
  }
  ModelSummary summarize(Module& model, int64_t height, int64_t width) const override {
    return saccade::summarize(model_as<Detector>(model), height, width);
  }
};

[[maybe_unused]] const bool detection_registered =
    tasks().add({.name = "detection", .task = std::make_shared<DetectionTask>()});

}  // namespace
}  // namespace saccade
