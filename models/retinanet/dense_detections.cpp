#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/scope.h"
#include "core/kernels/gather/gather.h"
#include "core/kernels/top_k/top_k.h"
#include "core/tensor/integers.h"
#include "models/detection/objects.h"
#include "models/detection/postprocess.h"
#include "models/not_finite.h"
#include "models/retinanet/dense_output.h"

namespace saccade {
namespace {

// A class of an anchor of a level.
struct Candidate {
  float logit;
  int64_t anchor, label;  // the anchor's place among those of the level
  std::array<float, 4> deltas;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.logit != b.logit) return a.logit > b.logit;
  return a.anchor != b.anchor ? a.anchor < b.anchor : a.label < b.label;
}

// What finds the candidates of one level.
struct LevelSearch {
  int64_t per_cell, columns, classes, count;
  float least;  // logits that are greater count
  MapSize map;

  // Of an image whose cells are `valid`; predictions on the host. By falling score.
  std::vector<Candidate> of_image(const float* logits, const float* deltas, MapSize valid) const {
    std::vector<Candidate> found;
    float limit = least;  // rises when there are enough: who comes later is better only with a greater logit
    auto keep_best = [&] {
      const auto kept = std::min<int64_t>(count, std::ssize(found));
      std::partial_sort(found.begin(), found.begin() + kept, found.end(), better);
      found.resize(static_cast<size_t>(kept));
      if (kept == count) limit = found.back().logit;
    };
    for (int64_t y = 0; y < valid.height; ++y) {
      const int64_t first = y * map.width * per_cell;
      for (int64_t anchor = first; anchor < first + valid.width * per_cell; ++anchor)
        for (int64_t k = 0; k < classes; ++k)
          if (const float logit = logits[anchor * columns + k]; logit > limit) {
            found.push_back({logit, anchor, k, {}});
            if (std::ssize(found) == 4 * count) keep_best();
          }
    }
    keep_best();
    for (Candidate& c : found) std::copy_n(deltas + 4 * c.anchor, 4, c.deltas.begin());
    return found;
  }

  // Of all images, where the predictions are on a GPU: only the best leave it.
  std::vector<std::vector<Candidate>> on_device(const Tensor& logits, const Tensor& deltas,
                                                const std::vector<MapSize>& valid) const {
    const int64_t N = logits.dim(0), anchors = map.cells() * per_cell,
                  kept = std::min(count, anchors * classes);
    Tensor hidden = Tensor::full({N, map.height, map.width, 1, 1}, 1, DType::kBool);
    for (int64_t n = 0; n < N; ++n)
      hidden.select(0, n)
          .slice(0, 0, valid[static_cast<size_t>(n)].height)
          .slice(1, 0, valid[static_cast<size_t>(n)].width)
          .fill(0);
    NoGrad no_grad;
    const Var all =
        slice(reshape(Var(logits), {N, map.height, map.width, per_cell, columns}), -1, 0, classes);
    const Tensor scores = masked_fill(all, hidden.to(logits.device()), -1e30)
                              .value()
                              .contiguous()
                              .reshape({N, anchors * classes});
    Tensor indices = Tensor::empty({N, kept}, DType::kI64, logits.device());
    kernels::top_k(scores, indices);
    Tensor best = Tensor::empty({N, kept, 1}, DType::kF32, logits.device());
    kernels::gather_rows(scores.reshape({N, anchors * classes, 1}), indices, best);
    const std::vector<int64_t> at = indices.to_vector<int64_t>();
    std::vector<int64_t> rows;
    for (int64_t i : at) rows.push_back(i / classes);
    Tensor moved = Tensor::empty({N, kept, 4}, DType::kF32, logits.device());
    kernels::gather_rows(deltas.reshape({N, anchors, 4}),
                         Tensor::from<int64_t>({N, kept}, rows, logits.device()), moved);
    const std::vector<float> values = best.to_vector<float>(), d = moved.to_vector<float>();
    std::vector<std::vector<Candidate>> found(static_cast<size_t>(N));
    for (size_t i = 0; i < at.size(); ++i) {
      if (!(values[i] > least)) continue;
      Candidate c{values[i], rows[i], at[i] % classes, {}};
      std::copy_n(d.data() + 4 * i, 4, c.deltas.begin());
      found[i / static_cast<size_t>(kept)].push_back(c);
    }
    return found;
  }
};

void need_finite(const Var& values, const char* what, const std::vector<Target>& targets) {
  if (is_finite(values.value())) return;
  for (size_t n = 0; n < targets.size(); ++n)
    if (!is_finite(values.value().select(0, static_cast<int64_t>(n))))
      throw NotFinite(fmt::format("{}: a predicted {} is not finite", name_of_image(targets[n]), what));
}

// A candidate as a box in pixels of the image as the model got it.
struct Found {
  ImageDetection detection;
  float logit;
};

// The best of them, none of which overlaps a better one of its class by more than options.nms.
std::vector<ImageDetection> best_of(std::vector<Found> found, const PostprocessOptions& options) {
  std::ranges::stable_sort(found, [](const Found& a, const Found& b) { return a.logit > b.logit; });
  std::vector<ImageDetection> kept;
  for (const Found& f : found) {
    if (std::ssize(kept) == options.max_detections) break;
    if (!doubles_another(f.detection, kept, options.nms)) kept.push_back(f.detection);
  }
  return kept;
}

}  // namespace

std::vector<std::vector<ImageDetection>> dense_detections(const DenseOutput& output,
                                                          const std::vector<Target>& targets,
                                                          const PostprocessOptions& options) {
  const DenseOptions& o = *output.options;
  const size_t N = targets.size();
  SACCADE_CHECK(N == output.sizes.size(), "[postprocess] {} targets for {} images", N, output.sizes.size());
  SACCADE_CHECK(options.max_detections > 0, "[postprocess] max_detections {}, expected at least 1",
                options.max_detections);
  LevelSearch search{.per_cell = o.anchors.per_cell(),
                     .columns = o.columns,
                     .classes = options.classes > 0 ? std::min(o.columns, options.classes) : o.columns,
                     .count = o.candidates,
                     .least = static_cast<float>(std::log(o.score_threshold / (1 - o.score_threshold))),
                     .map = {}};
  std::vector<std::vector<Found>> found(N);
  for (int64_t l = 0; l < output.maps.size(); ++l) {
    const auto level = static_cast<size_t>(l);
    need_finite(output.logits[level], "score", targets);
    need_finite(output.deltas[level], "box", targets);
    search.map = output.maps[l];
    std::vector<MapSize> valid;
    for (const ImageSize& size : output.sizes) valid.push_back(o.anchors.maps(size)[l]);
    const Tensor logits = output.logits[level].value().to(DType::kF32).contiguous(),
                 deltas = output.deltas[level].value().to(DType::kF32).contiguous();
    std::vector<std::vector<Candidate>> candidates;
    if (logits.device() == Device::kCpu) {
      for (size_t n = 0; n < N; ++n)
        candidates.push_back(search.of_image(logits.select(0, static_cast<int64_t>(n)).data<float>(),
                                             deltas.select(0, static_cast<int64_t>(n)).data<float>(),
                                             valid[n]));
    } else {
      candidates = search.on_device(logits, deltas, valid);
    }
    for (size_t n = 0; n < N; ++n)
      for (const Candidate& c : candidates[n]) {
        const int64_t index = output.maps.start(l) * search.per_cell + c.anchor;
        const std::array<float, 4> anchor =
            o.anchors.box(output.sizes[n], o.anchors.position(output.maps, index));
        const std::array<float, 4> b = o.coder.decode(anchor.data(), c.deltas.data());
        const double score = 1 / (1 + std::exp(-static_cast<double>(c.logit)));
        found[n].push_back(
            {{{.label = c.label, .box = cut({b[0], b[1], b[2], b[3]}, output.sizes[n]), .score = score},
              index},
             c.logit});
      }
  }
  std::vector<std::vector<ImageDetection>> results;
  for (size_t n = 0; n < N; ++n) {
    const Target& t = targets[n];
    results.push_back(best_of(std::move(found[n]), options));
    for (ImageDetection& d : results.back()) {
      d.box =
          scaled(d.box, static_cast<double>(t.original_width) / static_cast<double>(output.sizes[n].width),
                 static_cast<double>(t.original_height) / static_cast<double>(output.sizes[n].height));
      d.area = d.box.area();
    }
  }
  return results;
}

}  // namespace saccade
