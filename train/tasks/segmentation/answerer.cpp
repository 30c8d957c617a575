// The answers of a model of label maps about one image.
#include <fmt/format.h>

#include <utility>

#include "core/tensor/error.h"
#include "data/pages/label_picture.h"
#include "train/inference/picture_files.h"
#include "train/tasks/segmentation/label_map_files.h"
#include "train/tasks/segmentation/runner.h"
#include "train/tasks/segmentation/segmentation.h"

namespace saccade {
namespace {

class FoundLabels final : public Finding {
 public:
  FoundLabels(const LoadedModel& model, const LabelMapFiles& files, LabelMap labels)
      : model_(model), files_(files), labels_(std::move(labels)) {}

  std::string json(const AnswerOptions&) const override {
    return fmt::format("\"classes\": [{}]", files_.classes_json(files_.counts(labels_)));
  }
  AnswerFile picture(Image image, const std::string& format, const AnswerOptions&) const override {
    if (format == "label_map") return {"image/png", files_.bytes(labels_)};
    paint_labels(image, labels_, model_.class_names);
    return {format == "jpg" ? "image/jpeg" : "image/png", encode_drawing(image, format)};
  }

 private:
  const LoadedModel& model_;
  const LabelMapFiles& files_;
  LabelMap labels_;
};

class LabelAnswerer final : public Answerer {
 public:
  explicit LabelAnswerer(const LoadedModel& model)
      : model_(model),
        files_(model, "the model"),
        runner_(model.as<Segmenter>(), model.config, std::ssize(model.class_names)) {}
  void check(const AnswerOptions& options) const override {
    if (options.threshold) fail_input("threshold: the model predicts label maps, expected a detector");
    if (!options.classes.empty()) fail_input("classes: the model predicts label maps, expected a detector");
  }
  std::vector<std::string> picture_formats() const override { return {"png", "jpg", "label_map"}; }
  std::span<const Config> views() const override { return runner_.views(); }
  std::vector<std::shared_ptr<const Finding>> run(std::span<const Batch> views) override {
    std::vector<std::shared_ptr<const Finding>> found;
    for (LabelMap& labels : runner_.run(views))
      found.push_back(std::make_shared<FoundLabels>(model_, files_, std::move(labels)));
    return found;
  }

 private:
  const LoadedModel& model_;
  LabelMapFiles files_;
  SegmenterRunner runner_;
};

}  // namespace

std::unique_ptr<Answerer> SegmentationParts::answerer(const LoadedModel& model) const {
  return std::make_unique<LabelAnswerer>(model);
}

}  // namespace saccade
