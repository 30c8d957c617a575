// saccade predict with a model of label maps: pictures with the classes as colours, the label maps, and a list of what is where.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/images/draw.h"
#include "data/images/stored_pixels.h"
#include "data/pages/label_picture.h"
#include "train/config/options.h"
#include "train/tasks/segmentation/runner.h"
#include "train/tasks/segmentation/segmentation.h"

namespace saccade {
namespace {

class LabelPredictor : public Predictor {
 public:
  LabelPredictor(const PredictArguments& arguments, const LoadedModel& model)
      : output_(arguments.output),
        model_(model),
        runner_(model.as<Segmenter>(), model.config, std::ssize(model.class_names)),
        pixels_(model.class_names.size()) {
    for (auto [flag, given] :
         {std::pair{"--sampling-points", arguments.sampling_points},
          std::pair{"--threshold", arguments.threshold.has_value()},
          std::pair{"--classes", !arguments.classes.empty()}, std::pair{"--max", arguments.max > 0},
          std::pair{"--no-pictures", !arguments.pictures},
          std::pair{"--picture-format", arguments.format != "png"},
          std::pair{"--line-width", arguments.style.line_width.has_value()},
          std::pair{"--letter-size", arguments.style.letter_size.has_value()},
          std::pair{"--crop", arguments.crop}})
      if (given) fail_input("{}: {} makes label maps, expected a detector", flag, arguments.checkpoint);
    if (arguments.tile > 0)
      fail_input("--tile: {} makes label maps; --set eval.window={} looks at an image part by part",
                 arguments.checkpoint, arguments.tile);
    const auto greatest = std::ranges::max(model.category_ids);
    if (std::ranges::min(model.category_ids) < 0 || greatest > 65535)
      fail_input("{}: the category ids reach beyond 0 to 65535, the values that a label map can have",
                 arguments.checkpoint);
    if (greatest < 256) palette_ = label_palette(model.category_ids);
  }

  std::vector<std::string> predict(std::vector<LoadedInput> images, const Workspace& workspace,
                                   PictureNames& names) override {
    std::vector<Batch> views;
    for (const Config& view : runner_.views()) views.push_back(batch_of(images, view));
    const std::vector<LabelMap> found = runner_.run(views);
    std::vector<std::string> pictures;
    for (size_t n = 0; n < images.size(); ++n) {
      const PredictInput& input = *images[n].input;
      const std::string stem = std::filesystem::path(input.picture).replace_extension("").string(),
                        map = names.name("label_maps/" + stem);
      std::vector<uint16_t> values(found[n].values.size());
      std::ranges::transform(found[n].values, values.begin(), [&](uint16_t label) {
        return static_cast<uint16_t>(model_.category_ids[label]);
      });
      write_file(workspace.file(map), marked_as_drawn(encode_stored_pixels(found[n].size, values, palette_)));
      paint_labels(images[n].image, found[n], model_.class_names);
      write_file(workspace.file(input.picture), encode_drawing(images[n].image));
      pictures.insert(pictures.end(), {input.picture, map});
      add_to_list(input, map, found[n]);
    }
    return pictures;
  }
  std::string list_name() const override { return "predictions.json"; }
  std::string take_list() override { return std::exchange(list_, {}); }
  std::string summary(size_t images) const override {
    const int64_t all = std::max<int64_t>(1, std::accumulate(pixels_.begin(), pixels_.end(), int64_t{0}));
    std::vector<size_t> order(pixels_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t k) { return pixels_[k]; });
    std::string out;
    for (size_t k : order)
      if (pixels_[k] > 0)
        out +=
            fmt::format("{:5.1f} %  {}\n", 100.0 * static_cast<double>(pixels_[k]) / static_cast<double>(all),
                        printable(model_.class_names[k]));
    return out + fmt::format("{}: {} pictures, their label maps in label_maps, predictions.json\n",
                             escaped(output_), images);
  }
  bool has_pictures() const override { return true; }

 private:
  // Classes by falling number of pixels.
  void add_to_list(const PredictInput& input, const std::string& map, const LabelMap& labels) {
    std::vector<int64_t> counts(pixels_.size());
    for (uint16_t label : labels.values) ++counts[label];
    std::vector<size_t> order(counts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t k) { return counts[k]; });
    std::string classes;
    for (size_t k : order) {
      if (counts[k] == 0) continue;
      pixels_[k] += counts[k];
      classes += fmt::format("{}{{\"category_id\": {}, \"category\": {}, \"pixels\": {}}}",
                             classes.empty() ? "" : ", ", model_.category_ids[k],
                             json_quote(model_.class_names[k]), counts[k]);
    }
    list_ += fmt::format(
        "{}\n{{\"file_name\": {}, \"width\": {}, \"height\": {}, \"classes\": [{}], \"picture\": {}, \"label_map\": {}}}",
        count_++ ? "," : "", json_quote(input.name), labels.size.width, labels.size.height, classes,
        json_quote(input.picture), json_quote(map));
  }

  std::string output_;
  const LoadedModel& model_;
  SegmenterRunner runner_;
  std::vector<uint32_t> palette_;
  std::vector<int64_t> pixels_;  // of each class, of all images
  std::string list_;
  int64_t count_ = 0;
};

}  // namespace

std::unique_ptr<Predictor> label_predictor(const PredictArguments& arguments, const LoadedModel& model) {
  return std::make_unique<LabelPredictor>(arguments, model);
}

}  // namespace saccade
