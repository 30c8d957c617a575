// Report sections: metrics of a model of label maps, its confusions, and its best and worst images.
#include <fmt/format.h>

#include <algorithm>

#include "core/tensor/error.h"
#include "data/evaluation/label_counts.h"
#include "data/pages/label_picture.h"
#include "data/pages/order.h"
#include "data/pages/picture.h"
#include "train/config/options.h"
#include "train/inference/evaluation_data.h"
#include "train/report/evaluation_sections.h"
#include "train/tasks/segmentation/segmentation.h"

namespace saccade {
namespace {

constexpr size_t kShownImages = 12, kMaxLabelRows = 400;
constexpr int64_t kShownSide = 320;

// The quality of an image's labels.
struct OfImage {
  int64_t index = 0, pixels = 0;
  double iou = 0, accuracy = 0;  // mean IoU of its classes, accuracy of its pixels
  LabelMap truth, found;         // reduced; kept for images that may be shown
};

// Reduces a label map to sides of at most kShownSide pixels.
LabelMap small_map(const LabelMap& map) {
  const int64_t longest = std::max(map.size.height, map.size.width);
  if (longest <= kShownSide) return map;
  auto side = [&](int64_t v) { return std::max<int64_t>(1, v * kShownSide / longest); };
  return map.resize({side(map.size.height), side(map.size.width)});
}

// Keeps the best or the worst images as they arrive.
class Ranking {
 public:
  explicit Ranking(bool best) : best_(best) {}
  void add(const OfImage& image, const LabelMap& truth, const LabelMap& found) {
    const auto is_before = [this](const OfImage& a, const OfImage& b) {
      return best_ ? a.iou > b.iou : a.iou < b.iou;
    };
    const auto at = std::ranges::upper_bound(images_, image, is_before);
    if (at == images_.end() && images_.size() == kShownImages) return;
    OfImage kept = image;
    kept.truth = small_map(truth);
    kept.found = small_map(found);
    images_.insert(at, std::move(kept));
    if (images_.size() > kShownImages) images_.pop_back();
  }
  Html pictures(const Dataset& images, const std::vector<std::string>& names) const {
    return grid("pictures", first_shown(images_, kShownImages, [&](const OfImage& image) -> Html {
                  const std::optional<Image> pixels = open_picture(images, image.index);
                  if (!pixels) return {};
                  const std::string& name = images.file_name(image.index);
                  return picture(
                      labels_beside_each_other(*pixels, image.truth, image.found, names, kShownSide), name,
                      html("IoU <b>{}</b>, {} of the pixels correct<br>{}", metric_text(image.iou),
                           share_text(image.accuracy), name));
                }));
  }

 private:
  bool best_;
  std::vector<OfImage> images_;
};

void add_label_table(Page& page, const LabelCounts& counts, const std::vector<std::string>& names) {
  page.section("Classes");
  const std::vector<LabelCounts::OfClass> classes = counts.of_classes();
  const bool is_cut = classes.size() > kMaxLabelRows;
  std::vector<size_t> order =
      falling_order(classes.size(), [&](size_t k) { return is_cut ? -classes[k].iou().value_or(2) : 0.0; });
  if (is_cut) {
    order.resize(kMaxLabelRows);
    page.add(
        note(fmt::format("The {} classes with the lowest IoU, out of {}.", kMaxLabelRows, classes.size())));
  }
  const auto pixels = static_cast<double>(std::max<int64_t>(1, counts.means().pixels));
  std::vector<std::vector<Html>> rows;
  for (size_t k : order) {
    const LabelCounts::OfClass& c = classes[k];
    const double iou = c.iou().value_or(-1);
    rows.push_back(
        cells(names[k], share_text(static_cast<double>(c.pixels) / pixels), bar_cell(iou, metric_text(iou)),
              metric_text(c.accuracy().value_or(-1)),
              metric_text(c.found > 0 ? static_cast<double>(c.hits) / static_cast<double>(c.found) : -1)));
  }
  page.add(
      html_table({{"Class", false},
                  {"Pixels", true, "fraction of all pixels with a class"},
                  {"IoU", false, "correct pixels as a fraction of those labelled or predicted as the class"},
                  {"Accuracy", true, "recall: fraction of the class's pixels that are predicted correctly"},
                  {"Precision", true, "fraction of the pixels predicted as the class that belong to it"}},
                 rows));
}

}  // namespace

std::string SegmentationParts::report(Page& page, const ReportOptions& options) const {
  if (!options.model.module)
    fail_input("--detections: the run is a segmentation model's, expected a detector's");
  if (options.threshold) fail_input("--threshold: the run is a segmentation model's, expected a detector's");
  if (const std::string flags = options.label_errors.given_flags(); !flags.empty())
    fail_input("{}: the run is a segmentation model's, expected a detector's or a classifier's", flags);
  const LoadedModel& model = options.model;
  refuse_metric_options(options.metric_options, options.classes, options.checkpoint);
  const auto images = open_judged(options.paths, model);
  check_categories(*images, model.category_ids, model.class_names, options.checkpoint);
  LabelCounts counts(images->num_classes());
  Ranking best(true), worst(false);
  const auto seen = [&](int64_t index, const LabelMap& truth, const LabelMap& found) {
    LabelCounts own(images->num_classes());
    own.add(found.values, truth.values);
    counts.merge(own.state());
    const LabelCounts::Means means = own.means();
    if (means.pixels == 0) return;
    const OfImage image{
        .index = index, .pixels = means.pixels, .iou = means.iou, .accuracy = means.pixel_accuracy};
    best.add(image, truth, found);
    worst.add(image, truth, found);
  };
  const Evaluation evaluation =
      evaluate_segmenter(model.as<Segmenter>(), model.config, model.category_ids, images,
                         evaluator_of(model.config), options.evaluation, false, seen);

  page.section("Label maps");
  std::vector<std::pair<std::string, std::string>> numbers{{count_text(images->num_images()), "images"}};
  for (const auto& [name, value] : evaluation.metrics) numbers.emplace_back(metric_text(value), name);
  page.add(tiles(numbers));
  add_label_table(page, counts, images->class_names());
  page.section("Confusion matrix");
  const ConfusionMatrix matrix{.names = images->class_names(), .counts = counts.matrix()};
  page.add(note("In pixels."));
  page.add(confusion_table(matrix, false));
  page.section("Worst images");
  page.add(note("True classes on the left, predicted classes on the right."));
  page.add(worst.pictures(*images, images->class_names()));
  page.section("Best images");
  page.add(best.pictures(*images, images->class_names()));
  return fmt::format("{{\"metrics\": {}, {}}}\n", evaluation.json, confusion_json(matrix));
}

}  // namespace saccade
