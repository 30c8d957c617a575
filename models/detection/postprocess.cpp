#include "models/detection/postprocess.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>

#include "core/kernels/copy/copy.h"
#include "core/kernels/top_k/picked_detections.h"
#include "core/kernels/top_k/top_k.h"
#include "core/runtime/host_copy.h"
#include "core/runtime/parallel.h"
#include "core/tensor/error.h"
#include "models/not_finite.h"

namespace saccade {

namespace {

// For each original pixel of an axis, the cell before it and the fraction of the way to the next.
struct Places {
  std::vector<int64_t> cells;
  std::vector<float> parts;

  // `original` pixels cover the first `used` of the canvas's pixels, which the cells cover.
  Places(int64_t original, int64_t used, int64_t canvas, int64_t count) {
    const double scale = static_cast<double>(used) / static_cast<double>(original) *
                         static_cast<double>(count) / static_cast<double>(canvas);
    for (int64_t i = 0; i < original; ++i) {
      const double at =
          std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0, static_cast<double>(count - 1));
      cells.push_back(std::min(static_cast<int64_t>(at), std::max<int64_t>(count - 2, 0)));
      parts.push_back(static_cast<float>(at - static_cast<double>(cells.back())));
    }
  }
};

// Pixels of an axis that follow the same cell.
struct Band {
  int64_t cell, begin, end;
};

std::vector<Band> bands_of(const Places& places) {
  std::vector<Band> bands;
  for (int64_t i = 0; i < std::ssize(places.cells); ++i) {
    const int64_t cell = places.cells[static_cast<size_t>(i)];
    if (bands.empty() || bands.back().cell != cell) bands.push_back({cell, i, i});
    bands.back().end = i + 1;
  }
  return bands;
}

// Returns the pixels of the original image where a map, interpolated bilinearly between its cells, is above
// 0. Pixels between four cells of one sign have that sign, so only those along an object's edge are computed.
Mask mask_of_map(const float* logits, MapSize map, ImageSize canvas, const Target& image) {
  const ImageSize size{image.original_height, image.original_width};
  const Places rows(size.height, image.height, canvas.height, map.height),
      columns(size.width, image.width, canvas.width, map.width);
  const std::vector<Band> row_bands = bands_of(rows), column_bands = bands_of(columns);
  const int64_t below = map.height > 1 ? map.width : 0, beside = map.width > 1 ? 1 : 0;
  std::vector<Mask::Run> runs;
  struct Part {
    int64_t begin, end;
    bool is_edge;
  };
  std::vector<Part> parts;  // the parts of a column that may be set
  std::vector<float> left(rows.parts.size()), right(rows.parts.size());
  for (const Band& columns_here : column_bands) {
    parts.clear();
    for (const Band& band : row_bands) {
      const float* cell = logits + band.cell * map.width + columns_here.cell;
      const int set = (cell[0] > 0) + (cell[beside] > 0) + (cell[below] > 0) + (cell[below + beside] > 0);
      if (set == 0) continue;
      const bool is_edge = set < 4;
      if (!parts.empty() && parts.back().is_edge == is_edge && parts.back().end == band.begin)
        parts.back().end = band.end;
      else
        parts.push_back({band.begin, band.end, is_edge});
      if (!is_edge) continue;
      for (auto y = static_cast<size_t>(band.begin); y < static_cast<size_t>(band.end); ++y) {
        left[y] = cell[0] + rows.parts[y] * (cell[below] - cell[0]);
        right[y] = cell[beside] + rows.parts[y] * (cell[below + beside] - cell[beside]);
      }
    }
    for (int64_t x = columns_here.begin; x < columns_here.end; ++x) {
      const float across = columns.parts[static_cast<size_t>(x)];
      auto add = [&](int64_t begin, int64_t end) {
        runs.push_back(
            {static_cast<uint32_t>(x * size.height + begin), static_cast<uint32_t>(x * size.height + end)});
      };
      for (const Part& part : parts) {
        if (!part.is_edge) {
          add(part.begin, part.end);
          continue;
        }
        for (int64_t y = part.begin, begin = y; y <= part.end; ++y) {
          const auto at = static_cast<size_t>(y);
          if (y < part.end && left[at] + across * (right[at] - left[at]) > 0) continue;
          if (begin < y) add(begin, y);
          begin = y + 1;
        }
      }
    }
  }
  return Mask::from_runs(size, runs);
}

}  // namespace

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

[[noreturn]] void fail_not_finite(const Target& target, const char* what, int64_t query) {
  throw NotFinite(fmt::format("image {} ({}): the predicted {} of query {} is not finite", target.image_id,
                              target.file_name, what, query));
}

void need_finite_of(const float* values, int64_t queries, int64_t each, const char* what,
                    const Target& target) {
  for (int64_t i = 0; i < queries * each; ++i)
    if (!std::isfinite(values[i])) fail_not_finite(target, what, i / each);
}

ImageDetection detection_of(const ClassCandidate& c, const float* b, const Target& target,
                            const ClassLoss& class_loss) {
  const Box box = scaled(box_of_centre(b[0], b[1], b[2], b[3]), static_cast<double>(target.original_width),
                         static_cast<double>(target.original_height));
  return {{.label = c.label, .box = box, .area = box.area(), .score = class_loss.score_of(c.score)}, c.query};
}

// Returns how many columns of the logits stand for a class that may be chosen.
int64_t classes_of(int64_t columns, const PostprocessOptions& options, const ClassLoss& class_loss) {
  const int64_t classes = columns - class_loss.extra_columns();
  return options.classes > 0 ? std::min(classes, options.classes) : classes;
}

std::vector<ImageDetection> detections_of(const float* logits, const float* boxes, int64_t queries,
                                          int64_t columns, const Target& target,
                                          const PostprocessOptions& options, const ClassLoss& class_loss) {
  need_finite_of(logits, queries, columns, "score", target);
  need_finite_of(boxes, queries, 4, "box", target);
  const int64_t classes = classes_of(columns, options, class_loss);
  if (classes <= 0) return {};
  auto candidates = class_loss.candidates(logits, queries, columns, classes);
  const size_t most = static_cast<size_t>(options.max_detections);
  // If suppression removes some, others move up.
  const size_t sorted = options.nms < 1 ? candidates.size() : std::min(candidates.size(), most);
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<int64_t>(sorted), candidates.end(),
                    better);
  std::vector<ImageDetection> detections;
  for (size_t i = 0; i < sorted && detections.size() < most; ++i) {
    const ClassCandidate& c = candidates[i];
    const ImageDetection d = detection_of(c, boxes + c.query * 4, target, class_loss);
    if (!doubles_another(d, detections, options.nms)) detections.push_back(d);
  }
  return detections;
}

// Returns how many detections a GPU picks by itself; 0 if the host looks at all predictions.
int64_t picks_of(const Tensor& logits, const PostprocessOptions& options, const ClassLoss& class_loss) {
  constexpr int64_t kMaxPicks = 4096, kMaxExact = int64_t{1} << 24;  // of a row's floats
  const int64_t pairs = logits.dim(1) * classes_of(logits.dim(2), options, class_loss);
  if (logits.device() == Device::kCpu || !class_loss.ranks_logits() || options.nms < 1 || pairs <= 0)
    return 0;
  if (logits.dim(1) * std::max<int64_t>(logits.dim(2), 4) >= kMaxExact) return 0;
  const int64_t picks = std::min(options.max_detections, pairs);
  return picks <= kMaxPicks ? picks : 0;
}

HostCopy picked_on_gpu(const Tensor& logits, const Tensor& boxes, int64_t picks, int64_t classes) {
  const int64_t N = logits.dim(0);
  Tensor indices = Tensor::empty({N, picks}, DType::kI64, logits.device());
  kernels::top_k(logits.slice(2, 0, classes).contiguous().reshape({N, logits.dim(1) * classes}), indices);
  Tensor rows = Tensor::empty({N, picks, kernels::kPickedNumbers}, DType::kF32, logits.device());
  kernels::pick_detections(logits.contiguous(), boxes.contiguous(), indices, classes, rows);
  return HostCopy(rows);
}

std::vector<ImageDetection> detections_of_rows(const float* rows, int64_t picks, int64_t columns,
                                               const Target& target, const ClassLoss& class_loss) {
  const float* bad_box = nullptr;
  std::vector<ImageDetection> detections;
  for (const float* row = rows; row < rows + picks * kernels::kPickedNumbers;
       row += kernels::kPickedNumbers) {
    if (row[7] > 0) fail_not_finite(target, "score", (static_cast<int64_t>(row[7]) - 1) / columns);
    if (row[7] < 0 && !bad_box) bad_box = row;
    const ClassCandidate c{row[0], static_cast<int64_t>(row[5]), static_cast<int64_t>(row[6])};
    detections.push_back(detection_of(c, row + 1, target, class_loss));
  }
  if (bad_box) fail_not_finite(target, "box", (static_cast<int64_t>(-bad_box[7]) - 1) / 4);
  return detections;
}

// Joins the logits and, after them, the boxes.
HostCopy joined_predictions(const Tensor& logits, const Tensor& boxes) {
  const Tensor parts[] = {logits.contiguous().reshape({-1}), boxes.contiguous().reshape({-1})};
  Tensor both = Tensor::empty({logits.numel() + boxes.numel()}, DType::kF32, logits.device());
  kernels::join(parts, 0, both);
  return HostCopy(both);
}

void add_masks(const float* masks, const MapSize& map, const ImageSize& canvas, const Target& target,
               std::vector<ImageDetection>& detections) {
  parallel_for(std::ssize(detections), 1, [&](int64_t begin, int64_t end) {
    for (ImageDetection& d :
         std::span(detections).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))) {
      const float* of_map = masks + d.query * map.cells();
      if (!std::isfinite(std::accumulate(of_map, of_map + map.cells(), 0.0))) continue;
      d.mask = std::make_shared<const Mask>(mask_of_map(of_map, map, canvas, target));
      d.area = static_cast<double>(d.mask->area());
    }
  });
  for (const ImageDetection& d : detections)
    if (!d.mask) fail_not_finite(target, "mask", d.query);
}

}  // namespace

std::function<BatchDetections()> start_postprocess(const SetOutput& output,
                                                   const std::vector<Target>& targets,
                                                   const PostprocessOptions& options,
                                                   const ClassLoss& class_loss) {
  SACCADE_CHECK(!output.layers.empty(), "[postprocess] no decoder layer has predicted anything");
  const Tensor logits = output.layers.back().logits.value().to(DType::kF32),
               boxes = output.layers.back().boxes.value().to(DType::kF32);
  const auto count = static_cast<int64_t>(targets.size());
  SACCADE_CHECK(logits.rank() == 3 && logits.dim(0) == count && boxes.rank() == 3 && boxes.dim(0) == count &&
                    boxes.dim(1) == logits.dim(1) && boxes.dim(2) == 4,
                "[postprocess] logits {} and boxes {} for {} images, expected [N, Q, K] and [N, Q, 4]",
                logits.shape().to_string(), boxes.shape().to_string(), count);
  SACCADE_CHECK(options.max_detections > 0, "[postprocess] max_detections {}, expected at least 1",
                options.max_detections);
  const int64_t queries = logits.dim(1), columns = logits.dim(2);
  const int64_t picks = picks_of(logits, options, class_loss);
  // On the CPU they are read in place.
  const bool here = logits.device() == Device::kCpu;
  const HostCopy numbers = picks > 0
                               ? picked_on_gpu(logits, boxes, picks, classes_of(columns, options, class_loss))
                           : here ? HostCopy(logits)
                                  : joined_predictions(logits, boxes);
  const HostCopy places = here ? HostCopy(boxes) : HostCopy();
  HostCopy masks;
  MapSize map;
  if (const Var& maps = output.layers.back().masks; maps.defined()) {
    masks = HostCopy(maps.value().to(DType::kF32));
    map = {maps.dim(2), maps.dim(3)};
  }
  return [=, canvas = output.canvas, &class_loss] {
    BatchDetections results;
    for (int64_t n = 0; n < count; ++n) {
      const Target& target = targets[static_cast<size_t>(n)];
      const float* all = numbers.data<float>();
      if (picks > 0) {
        results.push_back(detections_of_rows(all + n * picks * kernels::kPickedNumbers, picks, columns,
                                             target, class_loss));
      } else {
        const float* b = places.defined() ? places.data<float>() : all + count * queries * columns;
        results.push_back(detections_of(all + n * queries * columns, b + n * queries * 4, queries, columns,
                                        target, options, class_loss));
      }
      if (masks.defined())
        add_masks(masks.data<float>() + n * queries * map.cells(), map, canvas, target, results.back());
    }
    return results;
  };
}

BatchDetections postprocess(const SetOutput& output, const std::vector<Target>& targets,
                            const PostprocessOptions& options, const ClassLoss& class_loss) {
  return start_postprocess(output, targets, options, class_loss)();
}

}  // namespace saccade
