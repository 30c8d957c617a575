// The answers of a detector about one image.
#include <fmt/format.h>

#include <utility>

#include "data/images/draw.h"
#include "train/inference/picture_files.h"
#include "train/tasks/detection/detection.h"
#include "train/tasks/detection/found_objects.h"
#include "train/tasks/detection/runner.h"

namespace saccade {
namespace {

class FoundObjects final : public Finding {
 public:
  FoundObjects(const LoadedModel& model, std::vector<Instance> objects)
      : model_(model), objects_(std::move(objects)) {}

  std::string json(const AnswerOptions& options) const override {
    std::string list;
    for (const Instance& object : wanted(options))
      list += fmt::format("{}\n{{{}{}}}", list.empty() ? "" : ",", object_json(object, model_),
                          segmentation_json(object));
    return fmt::format("\"detections\": [{}]", list);
  }
  AnswerFile picture(Image image, const std::string& format, const AnswerOptions& options) const override {
    draw_boxes(image, wanted(options), model_.class_names);
    return {format == "jpg" ? "image/jpeg" : "image/png", encode_drawing(image, format)};
  }

 private:
  std::vector<Instance> wanted(const AnswerOptions& options) const {
    const std::vector<bool> shown = shown_labels(options.classes, model_, "classes: the model");
    std::vector<Instance> objects;
    for (const Instance& object : objects_)
      if (object.score >= options.threshold.value_or(0.5) && shown[static_cast<size_t>(object.label)])
        objects.push_back(object);
    return objects;
  }

  const LoadedModel& model_;
  std::vector<Instance> objects_;
};

class BoxAnswerer final : public Answerer {
 public:
  explicit BoxAnswerer(const LoadedModel& model) : model_(model), inference_(model) {}
  void check(const AnswerOptions& options) const override {
    shown_labels(options.classes, model_, "classes: the model");
  }
  std::vector<std::string> picture_formats() const override { return {"png", "jpg"}; }
  std::span<const Config> views() const override { return {&model_.config, 1}; }
  std::vector<std::shared_ptr<const Finding>> run(std::span<const Batch> views) override {
    std::vector<std::shared_ptr<const Finding>> found;
    for (std::vector<Instance>& objects : inference_.run(views.front()))
      found.push_back(std::make_shared<FoundObjects>(model_, std::move(objects)));
    return found;
  }

 private:
  const LoadedModel& model_;
  DetectorInferencer inference_;
};

}  // namespace

std::unique_ptr<Answerer> DetectionParts::answerer(const LoadedModel& model) const {
  return std::make_unique<BoxAnswerer>(model);
}

}  // namespace saccade
