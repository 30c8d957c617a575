// Segmentation: the class of every pixel.
#include <fmt/format.h>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/pages/label_picture.h"
#include "models/build.h"
#include "models/summary.h"
#include "train/config/options.h"
#include "train/report/run_metrics.h"
#include "train/tasks/segmentation/runner.h"
#include "train/tasks/segmentation/segmentation.h"

namespace saccade {
namespace {

class SegmentationTask final : public SegmentationParts {
 public:
  void check(const Config& config) const override {
    evaluator_of(config);
    const config::Data& data = config.data();
    for (auto [name, value] : {std::pair{"data.augment.batch_mixup", data.augment().batch_mixup()},
                               std::pair{"data.mix.mixup_alpha", data.mix().mixup_alpha()},
                               std::pair{"data.mix.cutmix_alpha", data.mix().cutmix_alpha()}})
      if (value > 0)
        fail_input("{}: {} mixes images, whose label maps cannot be mixed, expected 0", name, value);
    if (data.augment().multi_scale_heights_size() > 0)
      fail_input(
          "data.augment.multi_scale_heights: resizes batches, but not their label maps, expected none");
    if (data.val_crop_pct() > 0)
      fail_input(
          "data.val_crop_pct: {} cuts the centre out of a classifier's images, expected 0 for label maps, which cover the whole image",
          data.val_crop_pct());
    const config::Eval& eval = config.eval();
    if (eval.window_stride() > eval.window() && eval.window() > 0)
      fail_input("eval.window_stride: {}, expected at most eval.window, {}", eval.window_stride(),
                 eval.window());
    if (!data.label_maps().list().empty() && data.label_maps().names_size() > 0)
      fail_input("data.label_maps.list (\"{}\") and data.label_maps.names cannot be combined",
                 data.label_maps().list());
  }
  void check_split(const std::string& field, const config::Split& split) const override {
    if (!split.format().empty()) find_format(split.format(), {.label_maps = true}, field + ".format");
    need(field + ".annotations", split.annotations(),
         "a folder of label maps, a list in ImageSets/Segmentation, a file of masks, or data.folder");
    need(field + ".images", split.images(), "the folder of the images");
  }
  std::vector<std::string> own_fields() const override {
    return {"criterion.class_weights",
            "criterion.mean_over_labelled",
            "data.label_maps",
            "data.augment.cat_max_ratio",
            "eval.window",
            "eval.window_stride",
            "eval.scales",
            "eval.flip"};
  }

  Contents needs(const Config&) const override { return {.label_maps = true}; }
  UsualClasses usual_classes() const override { return {150, "ADE20K"}; }
  std::string draw_target(Image& image, const Batch& batch, size_t n,
                          const std::vector<std::string>& class_names) const override {
    const auto& labels = batch.targets.at(n).label_map;
    LabelMap map(ImageSize{image.height, image.width});
    if (!labels) return "no label map";
    std::vector<bool> is_there(class_names.size());
    int64_t with_class = 0;
    for (int64_t y = 0; y < std::min(labels->size.height, map.size.height); ++y)
      for (int64_t x = 0; x < std::min(labels->size.width, map.size.width); ++x) {
        const uint16_t label = labels->values[static_cast<size_t>(y * labels->size.width + x)];
        map.values[static_cast<size_t>(y * map.size.width + x)] = label;
        if (label == LabelMap::kIgnored) continue;
        is_there.at(label) = true;
        ++with_class;
      }
    paint_labels(image, map, class_names);
    return fmt::format("{} on {:.0f} % of the pixels",
                       count_of(std::ranges::count(is_there, true), "class", "classes"),
                       100.0 * static_cast<double>(with_class) / static_cast<double>(map.values.size()));
  }

  Classes classes_of_weights(Config& config, const std::vector<std::string>& labels,
                             const std::string& annotations, std::vector<std::string>& notes) const override {
    if (!annotations.empty())
      fail_input("--annotations: {}, but the classes of a {} are the values in label maps", annotations,
                 config.model().type());
    const int64_t count = config.model().num_classes();
    Classes classes = unnamed_classes(count);
    const bool has_names = std::ssize(labels) == count;
    if (has_names) classes.names = labels;
    // ADE20K's label maps use 0 for pixels of none of its 150 classes.
    const bool is_ade = count == usual_classes().count;
    if (is_ade) {
      config.mutable_data()->mutable_label_maps()->set_reduce_zero_label(true);
      for (int64_t& id : classes.ids) ++id;
    }
    notes.push_back(fmt::format("{} outputs: the classes have {}; their values in label maps start at {}{}",
                                count, has_names ? "the names of config.json" : "no names", is_ade ? 1 : 0,
                                is_ade ? ", as in ADE20K" : ""));
    return classes;
  }

  std::vector<MetricChart> charts() const override {
    return {{.title = "Validation", .metrics = {{"mIoU", "mIoU"}, {"mAcc", "mAcc"}, {"aAcc", "aAcc"}}},
            {.title = "IoU of the classes", .prefix = "IoU/", .things = "classes"}};
  }

  std::unique_ptr<Inferencer> inferencer(const LoadedModel& model) const override {
    return std::make_unique<SegmenterInferencer>(model);
  }
  ModelSummary summarize(Module& model, int64_t height, int64_t width) const override {
    return saccade::summarize(model_as<Segmenter>(model), height, width);
  }
};

[[maybe_unused]] const bool segmentation_registered =
    tasks().add({.name = "segmentation", .task = std::make_shared<SegmentationTask>()});

}  // namespace
}  // namespace saccade
