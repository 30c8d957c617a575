#include "train/tasks/detection/report_pictures.h"

#include <algorithm>

#include "core/tensor/error.h"
#include "data/pages/order.h"
#include "data/pages/picture.h"
#include "train/inference/evaluation_data.h"
#include "train/tasks/detection/found_objects.h"
#include "train/tasks/detection/runner.h"

namespace saccade {
namespace {

constexpr int64_t kPairSide = 380, kPointsSide = 520;
constexpr size_t kWorstImages = 10, kBestImages = 6, kSampled = 4, kQueries = 3;

// Orders images by rising F1, or falling for the best; of equal ones, first those with more errors (worst) or
// with more correct objects (best).
std::vector<size_t> ordered(const std::vector<ImageOutcome>& images, bool worst) {
  return falling_order(images.size(), [&](size_t i) {
    const ImageOutcome& image = images[i];
    return worst ? std::pair(-image.f1(), image.errors()) : std::pair(image.f1(), image.right);
  });
}

Html outcome_caption(const ImageOutcome& o, const std::string& name) {
  Html text = html("<b>{}</b><br>F1 {}: {} correct", name, metric_text(o.f1()), o.right);
  if (o.confused > 0) text += html(", {} with a wrong class", o.confused);
  if (o.missed > 0) text += html(", {} missed", o.missed);
  if (o.invented > 0) text += html(", {} without an object", o.invented);
  return text;
}

void add_pairs(Page& page, const char* title, const Dataset& dataset, const std::vector<size_t>& order,
               size_t most, const DetectionPictures& pictures, const std::vector<ImageOutcome>& images) {
  const std::vector<Html> shown = first_shown(order, most, [&](size_t i) -> Html {
    const auto pair = pictures.truth_beside_found(static_cast<int64_t>(i), kPairSide);
    const std::string& name = dataset.file_name(static_cast<int64_t>(i));
    return pair ? picture(*pair, name, outcome_caption(images[i], name)) : Html();
  });
  if (shown.empty()) return;
  page.add(html("<h3>{}</h3>\n", title));
  page.add(grid("pictures wide", shown));
}

// Shows where the last decoder layer looked for its best queries; empty if its attention has no points.
Html show_points(const Image& image, const std::string& name, const ReportOptions& options) {
  const LoadedModel& model = options.model;
  auto& detector = model.as<Detector>();
  Sample sample{.image = image, .instances = {}};
  const ImageSize original{image.height, image.width};
  Rng none(0);
  sample = augment(std::move(sample), options.evaluation.loader.augment, none);
  const Batch batch =
      collate({sample}, {make_target(sample, original)}, options.evaluation.loader.pad_multiple);
  EvaluationMode mode(detector, options.evaluation.precision);
  const auto output = DetectorRunner(detector, options.evaluation.normalization).run(batch, true);
  if (output->sampling.empty() || !output->sampling.back().locations.defined()) return {};
  PostprocessOptions post = options.evaluation.post;
  post.classes = std::ssize(model.category_ids);
  const auto found = detector.postprocess(*output, batch.targets, post);
  std::vector<Instance> boxes;
  std::vector<std::string> names;
  std::vector<DrawnPoint> points;
  for (const ImageDetection& d : found.front()) {
    // Uses only the best class of each query, and boxes that are apart.
    auto is_near = [&](const Instance& other) {
      const Box &a = other.box, &b = d.box;
      return std::max(std::abs(a.x1 - b.x1), std::abs(a.x2 - b.x2)) < 0.2 * b.width() &&
             std::max(std::abs(a.y1 - b.y1), std::abs(a.y2 - b.y2)) < 0.2 * b.height();
    };
    if (boxes.size() == kQueries || std::any_of(boxes.begin(), boxes.end(), is_near)) continue;
    // Each query has a colour of its own.
    const auto color = std::ssize(boxes);
    boxes.push_back({.label = color, .box = d.box, .score = d.score});
    names.push_back(model.class_names.at(static_cast<size_t>(d.label)));
    add_sampling_points(output->sampling.back(), batch, 0, d.query, color, points);
  }
  const double scale = std::min(
      1.0, static_cast<double>(kPointsSide) / static_cast<double>(std::max(image.height, image.width)));
  Image small = small_picture(image, {}, {}, kPointsSide);
  for (DrawnPoint& p : points) {
    p.x *= scale;
    p.y *= scale;
  }
  for (Instance& i : boxes) i.box = scaled(i.box, scale, scale);
  draw_points(small, points, 2.2);
  draw_boxes(small, boxes, names);
  return picture(small, name, html("{}", name));
}

}  // namespace

void add_detection_pictures(Page& page, const Dataset& dataset, const std::vector<Detection>& detections,
                            const DetectionMetrics& metrics, const ReportOptions& options) {
  page.section("Pictures");
  page.add(note(fmt::format(
      "Left: ground truth. Right: detections with a score of at least {}. F1 is per image, at IoU 0.5.",
      metric_text(metrics.threshold))));
  const DetectionPictures pictures(dataset, detections, metrics.threshold);
  const std::vector<size_t> worst = ordered(metrics.images, true), best = ordered(metrics.images, false);
  add_pairs(page, "Worst images", dataset, worst, kWorstImages, pictures, metrics.images);
  add_pairs(page, "Best images", dataset, best, kBestImages, pictures, metrics.images);
  if (!options.model.module) return;
  std::vector<Html> shown;
  for (size_t i = 0; i < std::min(kSampled, best.size()); ++i) {
    // Alternates between the best and the worst.
    const size_t index = i % 2 == 0 ? best[i / 2] : worst[i / 2];
    const std::optional<Image> image = open_picture(dataset, static_cast<int64_t>(index));
    if (!image) continue;
    Html one = show_points(*image, dataset.file_name(static_cast<int64_t>(index)), options);
    if (!one.code.empty()) shown.push_back(std::move(one));
  }
  if (shown.empty()) return;
  page.add(html("<h3>Where the attention looked</h3>\n"));
  page.add(
      note("The sampling points of the last decoder layer for the three best detections in different places; "
           "the more opaque a point, the greater its weight."));
  page.add(grid("pictures wide", shown));
}

DetectionPictures::DetectionPictures(const Dataset& dataset, const std::vector<Detection>& detections,
                                     double threshold)
    : dataset_(dataset) {
  const std::vector<int64_t>& ids = dataset.category_ids();
  auto add = [&](auto& list, int64_t image, int64_t category, const std::array<double, 4>& b, double score) {
    const auto at = std::lower_bound(ids.begin(), ids.end(), category);
    if (at == ids.end() || *at != category) return;
    list[image].push_back({.label = at - ids.begin(), .box = box_of_corner(b), .score = score});
  };
  for (const Annotation& a : dataset.ground_truth().annotations)
    add(truth_, a.image_id, a.category_id, a.bbox, -1);
  for (const Detection& d : detections)
    if (d.score >= threshold) add(found_, d.image_id, d.category_id, d.bbox, d.score);
}

std::optional<Image> DetectionPictures::truth_beside_found(int64_t index, int64_t side) const {
  const std::optional<Image> image = open_picture(dataset_, index);
  if (!image) return std::nullopt;
  auto drawn = [&](const auto& lists) {
    const auto it = lists.find(dataset_.image_id(index));
    return small_picture(*image, it == lists.end() ? std::vector<Instance>() : it->second,
                         dataset_.class_names(), side);
  };
  return side_by_side(drawn(truth_), drawn(found_));
}

}  // namespace saccade
