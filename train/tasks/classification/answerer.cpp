// The answers of a classifier about one image.
#include <fmt/format.h>

#include <utility>

#include "core/tensor/error.h"
#include "train/tasks/classification/classification.h"
#include "train/tasks/classification/runner.h"

namespace saccade {
namespace {

class FoundClasses final : public Finding {
 public:
  explicit FoundClasses(std::string classes) : classes_(std::move(classes)) {}
  std::string json(const AnswerOptions&) const override { return fmt::format("\"classes\": [{}]", classes_); }
  AnswerFile picture(Image, const std::string&, const AnswerOptions&) const override {
    fail("[serve] a classifier draws nothing");
  }

 private:
  std::string classes_;
};

class ClassAnswerer final : public Answerer {
 public:
  explicit ClassAnswerer(const LoadedModel& model) : model_(model), inference_(model) {}
  void check(const AnswerOptions& options) const override {
    if (options.threshold)
      fail_input("threshold: the model is a classifier, which scores every class, expected a detector");
    if (!options.classes.empty()) fail_input("classes: the model is a classifier, expected a detector");
  }
  std::vector<std::string> picture_formats() const override { return {}; }
  std::span<const Config> views() const override { return {&model_.config, 1}; }
  std::vector<std::shared_ptr<const Finding>> run(std::span<const Batch> views) override {
    std::vector<std::shared_ptr<const Finding>> found;
    for (const std::vector<Instance>& classes : inference_.run(views.front()))
      found.push_back(std::make_shared<FoundClasses>(best_classes_json(classes, model_)));
    return found;
  }

 private:
  const LoadedModel& model_;
  ClassifierInferencer inference_;
};

}  // namespace

std::unique_ptr<Answerer> ClassificationParts::answerer(const LoadedModel& model) const {
  return std::make_unique<ClassAnswerer>(model);
}

}  // namespace saccade
