// saccade predict with a classifier: the best classes of each image, printed and as a list.
#include "train/tasks/classification/classification.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/files/text.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "train/tasks/classification/runner.h"

namespace saccade {
namespace {

class ClassPredictor : public Predictor {
 public:
  ClassPredictor(const PredictArguments& arguments, const LoadedModel& model)
      : output_(arguments.output), model_(model), inference_(model) {
    if (arguments.threshold)
      fail_input("--threshold: {} is a classifier, which scores every class; expected a detector",
                 arguments.checkpoint);
    for (auto [flag, given] : arguments.flags_of_objects())
      if (given) fail_input("{}: {} is a classifier, expected a detector", flag, arguments.checkpoint);
    if (arguments.tile > 0)
      fail_input("--tile: {} is a classifier, expected a detector", arguments.checkpoint);
  }

  void predict(std::vector<LoadedInput> images, PictureNames&, PictureWriter&) override {
    const auto found = inference_.run(batch_of(images, model_.config));
    for (size_t n = 0; n < images.size(); ++n) add(images[n], found[n]);
  }
  bool takes_videos() const override { return true; }
  std::vector<Drawing> predict_frames(const std::vector<LoadedInput>& frames) override {
    const auto found = inference_.run(batch_of(frames, model_.config));
    for (size_t n = 0; n < frames.size(); ++n) add_to_list(frames[n], found[n]);
    return {};
  }
  std::string list_name() const override { return "predictions.json"; }
  std::string take_list() override { return std::exchange(list_, {}); }
  std::string summary(size_t images) const override {
    return fmt::format("{}{}: predictions.json with the best classes of {} {}\n", lines_, escaped(output_),
                       std::max(count_, static_cast<int64_t>(images)),
                       count_ == static_cast<int64_t>(images) ? "images"
                       : images == 0                          ? "frames"
                                                              : "images and frames");
  }
  bool has_pictures() const override { return false; }

 private:
  void add(const LoadedInput& loaded, const std::vector<Instance>& classes) {
    std::string line = escaped(loaded.input->name) + ":";
    for (const Instance& c : best_classes(classes))
      line +=
          fmt::format(" {} {:.3f}", printable(model_.class_names.at(static_cast<size_t>(c.label))), c.score);
    lines_ += line + "\n";
    add_to_list(loaded, classes);
  }
  void add_to_list(const LoadedInput& loaded, const std::vector<Instance>& classes) {
    list_ += fmt::format("{}\n{}, \"classes\": [{}]}}", count_++ ? "," : "",
                         list_entry(*loaded.input, loaded.frame), best_classes_json(classes, model_));
  }

  std::string output_;
  const LoadedModel& model_;
  ClassifierInferencer inference_;
  std::string list_, lines_;
  int64_t count_ = 0;
};

}  // namespace

std::unique_ptr<Predictor> ClassificationParts::predictor(const PredictArguments& arguments,
                                                          const LoadedModel& model) const {
  return std::make_unique<ClassPredictor>(arguments, model);
}

}  // namespace saccade
