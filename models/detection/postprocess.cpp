#include "models/detection/postprocess.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "core/tensor/error.h"
#include "models/detection/mask_map.h"
#include "models/not_finite.h"

namespace saccade {

bool doubles_another(const ImageDetection& detection, const std::vector<ImageDetection>& better, double nms) {
  return nms < 1 && std::ranges::any_of(better, [&](const ImageDetection& other) {
           return other.label == detection.label && iou(other.box, detection.box) > nms;
         });
}

namespace {

bool better(const ClassCandidate& a, const ClassCandidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.query != b.query ? a.query < b.query : a.label < b.label;
}

std::vector<ImageDetection> detections_of(const float* logits, const float* boxes, int64_t queries,
                                          int64_t columns, const Target& target,
                                          const PostprocessOptions& options, const ClassLoss& class_loss) {
  const auto check_finite = [&](const float* values, int64_t each, const char* what) {
    for (int64_t i = 0; i < queries * each; ++i)
      if (!std::isfinite(values[i]))
        throw NotFinite(fmt::format("image {} ({}): the predicted {} of query {} is not finite",
                                    target.image_id, target.file_name, what, i / each));
  };
  check_finite(logits, columns, "score");
  check_finite(boxes, 4, "box");
  int64_t classes = columns - class_loss.extra_columns();
  if (options.classes > 0) classes = std::min(classes, options.classes);
  if (classes <= 0) return {};
  auto candidates = class_loss.candidates(logits, queries, columns, classes);
  const size_t most = static_cast<size_t>(options.max_detections);
  // Where some go, others move up.
  const size_t sorted = options.nms < 1 ? candidates.size() : std::min(candidates.size(), most);
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<int64_t>(sorted), candidates.end(),
                    better);
  double width = static_cast<double>(target.original_width),
         height = static_cast<double>(target.original_height);
  std::vector<ImageDetection> detections;
  for (size_t i = 0; i < sorted && detections.size() < most; ++i) {
    const ClassCandidate& c = candidates[i];
    const float* b = boxes + c.query * 4;
    const Box box = scaled(box_of_centre(b[0], b[1], b[2], b[3]), width, height);
    const ImageDetection d{
        {.label = c.label, .box = box, .area = box.area(), .score = class_loss.score_of(c.score)}, c.query};
    if (!doubles_another(d, detections, options.nms)) detections.push_back(d);
  }
  return detections;
}

}  // namespace

std::vector<std::vector<ImageDetection>> postprocess(const SetOutput& output,
                                                     const std::vector<Target>& targets,
                                                     const PostprocessOptions& options,
                                                     const ClassLoss& class_loss) {
  SACCADE_CHECK(!output.layers.empty(), "[postprocess] no decoder layer has predicted anything");
  const Tensor &logits = output.layers.back().logits.value(), &boxes = output.layers.back().boxes.value();
  int64_t count = static_cast<int64_t>(targets.size());
  SACCADE_CHECK(logits.rank() == 3 && logits.dim(0) == count && boxes.rank() == 3 && boxes.dim(0) == count &&
                    boxes.dim(1) == logits.dim(1) && boxes.dim(2) == 4,
                "[postprocess] logits {} and boxes {} for {} images, expected [N, Q, K] and [N, Q, 4]",
                logits.shape().to_string(), boxes.shape().to_string(), count);
  SACCADE_CHECK(options.max_detections > 0, "[postprocess] max_detections {}, expected at least 1",
                options.max_detections);
  int64_t queries = logits.dim(1), columns = logits.dim(2);
  std::vector<float> l = logits.to_vector<float>(), b = boxes.to_vector<float>(), masks;
  MapSize map;
  if (const Var& maps = output.layers.back().masks; maps.defined()) {
    masks = maps.value().to(DType::kF32).to_vector<float>();
    map = {maps.dim(2), maps.dim(3)};
  }
  std::vector<std::vector<ImageDetection>> results;
  for (int64_t n = 0; n < count; ++n) {
    results.push_back(detections_of(l.data() + n * queries * columns, b.data() + n * queries * 4, queries,
                                    columns, targets[static_cast<size_t>(n)], options, class_loss));
    if (masks.empty()) continue;
    for (ImageDetection& d : results.back()) {
      const Target& target = targets[static_cast<size_t>(n)];
      const float* logits_of_map = masks.data() + (n * queries + d.query) * map.cells();
      if (!std::isfinite(std::accumulate(logits_of_map, logits_of_map + map.cells(), 0.0)))
        throw NotFinite(fmt::format("image {} ({}): the predicted mask of query {} is not finite",
                                    target.image_id, target.file_name, d.query));
      d.mask = std::make_shared<const Mask>(mask_of_map(logits_of_map, map, output.canvas, target));
      d.area = static_cast<double>(d.mask->area());
    }
  }
  return results;
}

}  // namespace saccade
