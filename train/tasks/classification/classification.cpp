// Classification: the class of a whole image.
#include <fmt/format.h>

#include "core/tensor/error.h"
#include "data/images/draw.h"
#include "models/build.h"
#include "models/summary.h"
#include "models/weights/weight_names.h"
#include "train/config/options.h"
#include "train/report/run_metrics.h"
#include "train/tasks/classification/classification.h"
#include "train/tasks/classification/runner.h"

namespace saccade {
namespace {

class ClassificationTask final : public ClassificationParts {
 public:
  void check(const Config& config) const override {
    evaluator_of(config);
    const auto& data = config.data();
    if (data.augment().height() == 0)
      fail_input("data.augment.height: not set, expected the size of a classifier's training images");
    if (data.val_height() == 0)
      fail_input("data.val_height: not set, expected the size of a classifier's images at evaluation");
    for (auto [name, value] : {std::pair{"mosaic", data.augment().mosaic()},
                               std::pair{"batch_mixup", data.augment().batch_mixup()}})
      if (value > 0)
        fail_input("data.augment.{}: {} combines the objects of detection sets, expected 0 for a classifier",
                   name, value);
    if (pads_batches(data) && (data.mix().mixup_alpha() > 0 || data.mix().cutmix_alpha() > 0))
      fail_input(
          "data.mix: mixes images without padding, expected data.pad_multiple 1 and no random scale without "
          "pad_as_image");
  }
  void check_split(const std::string& field, const config::Split& split) const override {
    if (!split.format().empty()) find_format(split.format(), {.image_classes = true}, field + ".format");
    if (!split.annotations().empty())
      fail_input("{}.annotations: \"{}\", but a classifier reads the classes from the folders of {}.images",
                 field, split.annotations(), field);
    need(field + ".images", split.images(), "a folder with one sub-folder of images for each class");
  }
  std::vector<std::string> own_fields() const override { return {"criterion.label_smoothing"}; }

  Contents needs(const Config&) const override { return {.image_classes = true}; }
  UsualClasses usual_classes() const override { return {1000, "ImageNet"}; }
  std::string draw_target(Image& image, const Batch& batch, size_t n,
                          const std::vector<std::string>& class_names) const override {
    auto name_of = [&](size_t i) { return class_names.at(static_cast<size_t>(batch.targets.at(i).label)); };
    std::string name = name_of(n);
    if (batch.lambda < 1)
      name = fmt::format("{:.2f} {}, {:.2f} {}", batch.lambda, name, 1 - batch.lambda,
                         name_of(batch.targets.size() - 1 - n));
    const Box all{0, 0, static_cast<double>(image.width), static_cast<double>(image.height)};
    draw_boxes(image, {{.box = all, .score = -1}}, {name});
    return name;
  }

  void check_classes(const Classes& classes, const std::string& checkpoint) const override {
    if (classes.names.empty() || !classes.ids.empty())
      fail_input("{}: damaged checkpoint: {} class names and {} category ids, expected only names",
                 checkpoint, classes.names.size(), classes.ids.size());
  }
  Classes unnamed_classes(int64_t count) const override {
    Classes classes;
    for (int64_t k = 0; k < count; ++k) classes.names.push_back(std::to_string(k));
    return classes;
  }
  Classes classes_of_weights(Config& config, const std::vector<std::string>& labels,
                             const std::string& annotations, std::vector<std::string>& notes) const override {
    if (!annotations.empty())
      fail_input("--annotations: {} names categories, but a {} has classes without ids", annotations,
                 config.model().type());
    const int64_t count = config.model().num_classes();
    const bool imagenet = count == std::ssize(imagenet_class_names());
    const bool has_names = !imagenet && std::ssize(labels) == count;
    notes.push_back(fmt::format("{} outputs: the classes {}", count,
                                imagenet    ? "are ImageNet's"
                                : has_names ? "have the names of config.json"
                                            : "have no names"));
    if (imagenet) return {imagenet_class_names(), {}};
    if (has_names) return {labels, {}};
    Classes classes;
    for (int64_t k = 0; k < count; ++k) classes.names.push_back(fmt::format("class {}", k));
    return classes;
  }

  std::vector<MetricChart> charts() const override {
    return {
        {.title = "Validation", .metrics = {{"top1", "top-1"}, {"top5", "top-5"}}},
        {.title = "Training accuracy", .subtitle = "top-1", .metrics = {{"top1", ""}}, .of_training = true}};
  }

  std::unique_ptr<Inferencer> inferencer(const LoadedModel& model) const override {
    return std::make_unique<ClassifierInferencer>(model);
  }
  ModelSummary summarize(Module& model, int64_t height, int64_t width) const override {
    return saccade::summarize(model_as<Classifier>(model), height, width);
  }
};

[[maybe_unused]] const bool classification_registered =
    tasks().add({.name = "classification", .task = std::make_shared<ClassificationTask>()});

}  // namespace
}  // namespace saccade
