#include "models/rcnn/detections.h"

#include <algorithm>
#include <cmath>

#include "core/runtime/host_copy.h"
#include "core/runtime/parallel.h"
#include "models/detection/objects.h"
#include "models/detection/postprocess.h"
#include "models/not_finite.h"
#include "models/rcnn/regions.h"

namespace saccade {
namespace {

// Only so many pairs of proposal and class, those with the highest scores, are compared with each other.
constexpr int64_t kCandidates = 4096;

}  // namespace

RegionDetections best_detections(const ProposedRegions& proposals, const BoxHead::Result& result,
                                 const Tensor& sizes, const BoxCoder& coder,
                                 const RegionDetectionOptions& options) {
  const NoGrad no_grad;
  const int64_t N = proposals.scores.dim(0), P = proposals.scores.dim(1), K = result.logits.dim(1) - 1,
                each = result.deltas.dim(1);
  const Device device = result.logits.device();
  const Var probabilities = slice(softmax(reshape(result.logits, {N, P, K + 1})), -1, 0, K);
  const Var scores = reshape(mul(probabilities, reshape(stays(proposals.scores), {N, P, 1})), {N, P * K});
  const Var from = reshape(proposals.boxes, {N, P, 1, 4});
  const Var decoded = coder.decode(reshape(result.deltas, {N, P, each, 4}), from.value());
  const Var boxes =
      cut_boxes(reshape(each == K ? decoded : expand(decoded, {N, P, K, 4}), {N, P * K, 4}), sizes);
  std::vector<float> numbers;
  for (int64_t k = 0; k < K; ++k) numbers.push_back(static_cast<float>(k));
  const Var labels = reshape(
      expand(reshape(Var(Tensor::from<float>({K}, numbers, device)), {1, 1, K}), {N, P, K}), {N, P * K, 1});

  const BestRows candidates = best_rows(scores, kCandidates);
  const int64_t M = candidates.indices.dim(1);
  const Var box = candidates.of(boxes), label = candidates.of(labels);
  const Var score = reshape(candidates.of(reshape(scores, {N, P * K, 1})), {N, M});
  const Var left = suppressed(box, score, reshape(label, {N, M}), K, options.nms);
  const BestRows best = best_rows(left, options.count);
  const int64_t D = best.indices.dim(1);
  return {best.of(box), reshape(best.of(reshape(left, {N, M, 1})), {N, D}), reshape(best.of(label), {N, D})};
}

namespace {

// The positions of the pixel centres of an axis in a map of `side` cells that covers [first, last).
struct MaskAxis {
  int64_t begin, end;  // pixels that may be set
  double first, scale;
  MaskAxis(double low, double high, int64_t side, int64_t length)
      : begin(std::clamp<int64_t>(static_cast<int64_t>(std::floor(low)), 0, length)),
        end(std::clamp<int64_t>(static_cast<int64_t>(std::ceil(high)), begin, length)),
        first(low),
        scale(high > low ? static_cast<double>(side) / (high - low) : 0) {}
  double at(int64_t pixel) const { return (static_cast<double>(pixel) + 0.5 - first) * scale - 0.5; }
};

float cell_of(const float* map, int64_t side, int64_t y, int64_t x) {
  return y < 0 || x < 0 || y >= side || x >= side ? 0 : map[y * side + x];
}

}  // namespace

Mask mask_in_box(const float* probabilities, int64_t side, const Box& box, ImageSize image,
                 bool like_torchvision) {
  std::vector<float> padded;
  Box covered = box;
  if (like_torchvision) {
    // Adds a cell on each side and enlarges the box with it, to whole pixels including the last one.
    const int64_t wide = side + 2;
    padded.assign(static_cast<size_t>(wide * wide), 0);
    for (int64_t y = 0; y < side; ++y)
      std::copy_n(probabilities + y * side, side, padded.data() + (y + 1) * wide + 1);
    const double scale = static_cast<double>(wide) / static_cast<double>(side) / 2;
    const double x = (box.x1 + box.x2) / 2, y = (box.y1 + box.y2) / 2;
    covered = {std::trunc(x - box.width() * scale), std::trunc(y - box.height() * scale),
               std::trunc(x + box.width() * scale), std::trunc(y + box.height() * scale)};
    covered.x2 = std::max(covered.x2 + 1, covered.x1 + 1);
    covered.y2 = std::max(covered.y2 + 1, covered.y1 + 1);
    probabilities = padded.data();
    side = wide;
  }
  const MaskAxis rows(covered.y1, covered.y2, side, image.height),
      columns(covered.x1, covered.x2, side, image.width);
  const ImageSize window{rows.end - rows.begin, columns.end - columns.begin};
  if (window.height == 0 || window.width == 0)
    return Mask::from_counts(image, std::vector<int64_t>{image.height * image.width});
  std::vector<uint8_t> pixels(static_cast<size_t>(window.height * window.width), 0);
  // torchvision's resizing is constant beyond the outermost centres, mmdetection's falls to 0.
  const auto place = [&](double at) {
    return like_torchvision ? std::clamp(at, 0.0, static_cast<double>(side - 1)) : at;
  };
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const double v = place(rows.at(y)), top = std::floor(v);
    const auto row = static_cast<int64_t>(top);
    const auto below = static_cast<float>(v - top);
    for (int64_t x = columns.begin; x < columns.end; ++x) {
      const double h = place(columns.at(x)), left = std::floor(h);
      const auto column = static_cast<int64_t>(left);
      const auto right = static_cast<float>(h - left);
      auto across = [&](int64_t r) {
        return (1 - right) * cell_of(probabilities, side, r, column) +
               right * cell_of(probabilities, side, r, column + 1);
      };
      const float p = (1 - below) * across(row) + below * across(row + 1);
      pixels[static_cast<size_t>((y - rows.begin) * window.width + x - columns.begin)] =
          like_torchvision ? p > 0.5f : p >= 0.5f;
    }
  }
  return Mask::from_bitmap(window, pixels).crop(-rows.begin, -columns.begin, image);
}

std::vector<std::vector<ImageDetection>> detections_of_images(const RegionDetections& found,
                                                              const std::vector<ImageSize>& sizes,
                                                              const std::vector<Target>& targets,
                                                              const RegionDetectionOptions& own,
                                                              const PostprocessOptions& options) {
  const int64_t N = std::ssize(targets), D = found.scores.dim(1);
  SACCADE_CHECK(found.scores.dim(0) == N && std::ssize(sizes) == N, "[postprocess] {} targets for {} images",
                N, found.scores.dim(0));
  SACCADE_CHECK(options.max_detections > 0, "[postprocess] max_detections {}, expected at least 1",
                options.max_detections);
  // All copies are started before the first wait, so that the host waits for a GPU only once.
  auto start = [](const Var& v) { return v.defined() ? HostCopy(v.value().to(DType::kF32)) : HostCopy(); };
  const HostCopy all_boxes = start(found.boxes), all_scores = start(found.scores),
                 all_labels = start(found.labels), all_masks = start(found.masks);
  const float* masks = all_masks.defined() ? all_masks.data<float>() : nullptr;  // the copy started last
  const float *labels = all_labels.data<float>(), *scores = all_scores.data<float>(),
              *boxes = all_boxes.data<float>();
  const int64_t side = found.masks.defined() ? found.masks.dim(2) : 0;
  std::vector<std::vector<ImageDetection>> results(targets.size());
  for (int64_t n = 0; n < N; ++n) {
    const Target& t = targets[static_cast<size_t>(n)];
    const ImageSize size = sizes[static_cast<size_t>(n)], original{t.original_height, t.original_width};
    std::vector<ImageDetection>& list = results[static_cast<size_t>(n)];
    for (int64_t d = n * D; d < (n + 1) * D; ++d) {
      const auto i = static_cast<size_t>(d);
      const float* b = boxes + 4 * i;
      if (!std::isfinite(scores[i] + b[0] + b[1] + b[2] + b[3]))
        throw NotFinite(fmt::format("{}: a predicted box or score is not finite", name_of_image(t)));
      const auto label = static_cast<int64_t>(labels[i]);
      if (!(scores[i] > own.score_threshold) || (options.classes > 0 && label >= options.classes)) continue;
      if (std::ssize(list) == options.max_detections) break;
      const Box box = scaled({b[0], b[1], b[2], b[3]},
                             static_cast<double>(original.width) / static_cast<double>(size.width),
                             static_cast<double>(original.height) / static_cast<double>(size.height));
      const ImageDetection detection{{.label = label, .box = box, .area = box.area(), .score = scores[i]},
                                     d - n * D};
      if (!doubles_another(detection, list, options.nms)) list.push_back(detection);
    }
    if (!masks) continue;
    parallel_for(std::ssize(list), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        ImageDetection& d = list[static_cast<size_t>(i)];
        const float* map = masks + (n * D + d.query) * side * side;
        d.mask =
            std::make_shared<const Mask>(mask_in_box(map, side, d.box, original, own.masks_like_torchvision));
        d.area = static_cast<double>(d.mask->area());
      }
    });
  }
  return results;
}

}  // namespace saccade
