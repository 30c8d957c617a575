// saccade predict with a model of label maps: pictures with the classes as colours, the label maps, and a
// list of the classes in each image.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <utility>

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/pages/label_picture.h"
#include "data/pages/order.h"
#include "train/tasks/segmentation/label_map_files.h"
#include "train/tasks/segmentation/runner.h"
#include "train/tasks/segmentation/segmentation.h"

namespace saccade {
namespace {

class LabelPredictor : public Predictor {
 public:
  LabelPredictor(const PredictArguments& arguments, const LoadedModel& model)
      : output_(arguments.output),
        model_(model),
        files_(model, arguments.checkpoint),
        runner_(model.as<Segmenter>(), model.config, std::ssize(model.class_names)),
        pixels_(model.class_names.size()) {
    if (arguments.threshold)
      fail_input("--threshold: {} predicts label maps, expected a detector", arguments.checkpoint);
    for (auto [flag, given] : arguments.flags_of_objects())
      if (given) fail_input("{}: {} predicts label maps, expected a detector", flag, arguments.checkpoint);
    if (arguments.tile > 0)
      fail_input("--tile: {} predicts label maps; --set eval.window={} processes an image part by part",
                 arguments.checkpoint, arguments.tile);
  }

  void predict(std::vector<LoadedInput> images, PictureNames& names, PictureWriter& writer) override {
    std::vector<LabelMap> found = label_maps(images);
    for (size_t n = 0; n < images.size(); ++n) {
      const PredictInput& input = *images[n].input;
      const std::string stem = std::filesystem::path(input.picture).replace_extension("").string(),
                        map = names.name("label_maps/" + stem);
      add_to_list(images[n], map, found[n]);
      auto image = std::make_shared<Image>(std::move(images[n].image));
      writer.add({input.picture, map}, [this, &input, &writer, map, image, labels = std::move(found[n])] {
        write_file(writer.workspace().file(map), files_.bytes(labels));
        paint_labels(*image, labels, model_.class_names);
        write_file(writer.workspace().file(input.picture), encode_drawing(*image));
      });
    }
  }
  bool takes_videos() const override { return true; }
  // Writes no label map files for frames.
  std::vector<Drawing> predict_frames(const std::vector<LoadedInput>& frames) override {
    std::vector<Drawing> drawings;
    for (size_t n = 0; LabelMap & found : label_maps(frames)) {
      add_to_list(frames[n++], "", found);
      drawings.push_back([this, labels = std::move(found)](Image& image) {
        paint_labels(image, labels, model_.class_names);
      });
    }
    return drawings;
  }
  std::string list_name() const override { return "predictions.json"; }
  std::string take_list() override { return std::exchange(list_, {}); }
  std::string summary(size_t images) const override {
    const int64_t all = std::max<int64_t>(1, std::accumulate(pixels_.begin(), pixels_.end(), int64_t{0}));
    std::string out;
    for (size_t k : falling_order(pixels_.size(), [&](size_t k) { return pixels_[k]; }))
      if (pixels_[k] > 0)
        out +=
            fmt::format("{:5.1f} %  {}\n", 100.0 * static_cast<double>(pixels_[k]) / static_cast<double>(all),
                        printable(model_.class_names[k]));
    const std::string pictures = images > 0 ? count_of(static_cast<int64_t>(images), "picture", "pictures") +
                                                  ", label maps in label_maps, "
                                            : "";
    return out + fmt::format("{}: {}predictions.json\n", escaped(output_), pictures);
  }
  bool has_pictures() const override { return true; }

 private:
  std::vector<LabelMap> label_maps(const std::vector<LoadedInput>& images) {
    std::vector<Batch> views;
    for (const Config& view : runner_.views()) views.push_back(batch_of(images, view));
    return runner_.run(views);
  }

  // `map`: empty for none
  void add_to_list(const LoadedInput& loaded, const std::string& map, const LabelMap& labels) {
    const std::vector<int64_t> counts = files_.counts(labels);
    for (size_t k = 0; k < counts.size(); ++k) pixels_[k] += counts[k];
    list_ += fmt::format("{}\n{}, \"width\": {}, \"height\": {}, \"classes\": [{}], \"picture\": {}{}}}",
                         count_++ ? "," : "", list_entry(*loaded.input, loaded.frame), labels.size.width,
                         labels.size.height, files_.classes_json(counts), json_quote(loaded.input->picture),
                         map.empty() ? "" : fmt::format(", \"label_map\": {}", json_quote(map)));
  }

  std::string output_;
  const LoadedModel& model_;
  LabelMapFiles files_;
  SegmenterRunner runner_;
  std::vector<int64_t> pixels_;  // of each class, of all images
  std::string list_;
  int64_t count_ = 0;
};

}  // namespace

std::unique_ptr<Predictor> SegmentationParts::predictor(const PredictArguments& arguments,
                                                        const LoadedModel& model) const {
  return std::make_unique<LabelPredictor>(arguments, model);
}

}  // namespace saccade
