// Mean IoU, mean accuracy and pixel accuracy of label maps, and IoU and accuracy of each class,
// as mmsegmentation computes them.
#include <fmt/format.h>

#include <algorithm>

#include "core/files/text.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/evaluation/evaluators.h"
#include "data/evaluation/label_counts.h"

namespace saccade {
namespace {

std::string json_number(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "null";
}
std::string short_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.4f}", *value) : "-";
}

class MeanIou final : public Evaluator {
 public:
  explicit MeanIou(const EvaluatorSpec::Options& options)
      : per_class_(options.per_class), counts_(std::ssize(options.truth->categories)) {
    for (const Category& c : options.truth->categories) names_.push_back(c.name);
  }
  void add(Predicted prediction) override { counts_.add(prediction.labels, prediction.true_labels); }
  std::string state() const override { return counts_.state(); }
  void merge(std::string_view state) override { counts_.merge(state); }

  Evaluation result() const override {
    const LabelCounts::Means means = counts_.means();
    if (means.pixels == 0)
      fail_input("no pixel of the images has a class, so there is nothing to compare with");
    const std::vector<LabelCounts::OfClass> classes = counts_.of_classes();
    Evaluation evaluation{
        .metrics = {{"mIoU", means.iou}, {"mAcc", means.accuracy}, {"aAcc", means.pixel_accuracy}}};
    evaluation.table = fmt::format(
        "mIoU  {:.4f}  (mean IoU of {} of {} classes)\nmAcc  {:.4f}  (mean accuracy of the classes)\naAcc  {:.4f}  (of {} "
        "pixels)\n",
        means.iou, means.classes, counts_.classes(), means.accuracy, means.pixel_accuracy, means.pixels);
    std::string list;
    size_t longest = 0;
    for (const std::string& name : names_) longest = std::max(longest, printable(name).size());
    if (per_class_)
      evaluation.table +=
          fmt::format("{:{}}  IoU     accuracy  pixels\n", "class", std::max<size_t>(longest, 5));
    for (size_t k = 0; k < classes.size(); ++k) {
      const LabelCounts::OfClass& c = classes[k];
      list +=
          fmt::format("{}\n  {{\"name\": {}, \"IoU\": {}, \"accuracy\": {}, \"pixels\": {}}}", k ? "," : "",
                      json_quote(names_[k]), json_number(c.iou()), json_number(c.accuracy()), c.pixels);
      if (c.pixels > 0) evaluation.of_classes.emplace_back("IoU/" + names_[k], *c.iou());
      if (per_class_)
        evaluation.table +=
            fmt::format("{:{}}  {:6}  {:8}  {}\n", printable(names_[k]), std::max<size_t>(longest, 5),
                        short_text(c.iou()), short_text(c.accuracy()), c.pixels);
    }
    evaluation.json =
        fmt::format("{{\"mIoU\": {}, \"mAcc\": {}, \"aAcc\": {}, \"pixels\": {}, \"per_class\": [{}]}}\n",
                    means.iou, means.accuracy, means.pixel_accuracy, means.pixels, list);
    return evaluation;
  }

 private:
  bool per_class_;
  LabelCounts counts_;
  std::vector<std::string> names_;
};

[[maybe_unused]] const bool miou_registered =
    evaluators("segmentation")
        .add({.name = "miou",
              .summary = "mean IoU, mean accuracy and pixel accuracy of label maps",
              .primary = {"mIoU", "mAcc", "aAcc"},
              .start = [](const EvaluatorSpec::Options& options) -> std::unique_ptr<Evaluator> {
                return std::make_unique<MeanIou>(options);
              },
              .is_usual = true});

}  // namespace
}  // namespace saccade
