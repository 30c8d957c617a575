#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/scope.h"
#include "core/kernels/gather/gather.h"
#include "core/kernels/top_k/top_k.h"
#include "core/runtime/host_copy.h"
#include "core/tensor/integers.h"
#include "models/detection/objects.h"
#include "models/detection/postprocess.h"
#include "models/not_finite.h"
#include "models/retinanet/dense_output.h"

namespace saccade {
namespace {

constexpr float kHidden = -1e30F;  // the logit of cells in the padding

// A class of an anchor of a level.
struct Candidate {
  float logit;
  int64_t anchor, label;  // the anchor's index in the level
  std::array<float, 4> deltas;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.logit != b.logit) return a.logit > b.logit;
  return a.anchor != b.anchor ? a.anchor < b.anchor : a.label < b.label;
}

// Returns the logit that detections must exceed; a threshold of 0 admits everything that is not hidden.
float least_logit(double threshold) {
  return threshold > 0 ? static_cast<float>(std::log(threshold / (1 - threshold))) : kHidden / 2;
}

// Finds the candidates of one level.
struct LevelSearch {
  int64_t per_cell, columns, classes, count;
  float least;  // candidates must have a greater logit
  MapSize map;

  // For an image whose valid cells are `valid`, with predictions on the host. By descending score.
  std::vector<Candidate> of_image(const float* logits, const float* deltas, MapSize valid) const {
    std::vector<Candidate> found;
    float limit = least;  // rises once there are enough: later candidates need a greater logit
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
};

// Finds the candidates of all images if the predictions are on a GPU: only the best leave it, and the host
// waits once for all levels.
class LevelSearchOnGpu {
 public:
  // `hidden` bool [N, H, W, 1, 1]: cells in the padding
  LevelSearchOnGpu(const LevelSearch& search, const Tensor& logits, const Tensor& deltas,
                   const Tensor& hidden)
      : search_(search), images_(logits.dim(0)) {
    const NoGrad no_grad;
    const int64_t N = images_, classes = search.classes, anchors = search.map.cells() * search.per_cell;
    kept_ = std::min(search.count, anchors * classes);
    const Var all =
        slice(reshape(Var(logits), {N, search.map.height, search.map.width, search.per_cell, search.columns}),
              -1, 0, classes);
    const Tensor scores = masked_fill(all, hidden.to(logits.device()), kHidden)
                              .value()
                              .contiguous()
                              .reshape({N, anchors * classes});
    Tensor indices = Tensor::empty({N, kept_}, DType::kI64, logits.device());
    kernels::top_k(scores, indices);
    Tensor best = Tensor::empty({N, kept_, 1}, DType::kF32, logits.device());
    kernels::gather_rows(scores.reshape({N, anchors * classes, 1}), indices, best);
    // The anchor of a pair; half a class is added so that rounding does not matter.
    const Var pairs = add_scalar(Var(indices.to(DType::kF64)), 0.5);
    const Tensor rows =
        mul_scalar(pairs, 1 / static_cast<double>(classes)).value().to(DType::kI64).contiguous();
    Tensor moved = Tensor::empty({N, kept_, 4}, DType::kF32, logits.device());
    kernels::gather_rows(deltas.reshape({N, anchors, 4}), rows, moved);
    indices_ = HostCopy(indices), best_ = HostCopy(best), moved_ = HostCopy(moved);
  }

  void wait() const { moved_.data<float>(); }
  std::vector<std::vector<Candidate>> found() const {
    const int64_t* at = indices_.data<int64_t>();
    const float *values = best_.data<float>(), *d = moved_.data<float>();
    std::vector<std::vector<Candidate>> found(static_cast<size_t>(images_));
    for (int64_t i = 0; i < images_ * kept_; ++i) {
      if (!(values[i] > search_.least)) continue;
      Candidate c{values[i], at[i] / search_.classes, at[i] % search_.classes, {}};
      std::copy_n(d + 4 * i, 4, c.deltas.begin());
      found[static_cast<size_t>(i / kept_)].push_back(c);
    }
    return found;
  }

 private:
  LevelSearch search_;
  int64_t images_, kept_ = 0;
  HostCopy indices_, best_, moved_;
};

// Checks whether predictions are finite; the result is known when the device gets to it.
class FiniteCheck {
 public:
  FiniteCheck(const Var& values, const char* what)
      : values_(values.value()), what_(what), count_(nonfinite_count(values_)) {}
  void need(const std::vector<Target>& targets) const {
    if (count_.data<double>()[0] == 0) return;
    for (size_t n = 0; n < targets.size(); ++n)
      if (!is_finite(values_.select(0, static_cast<int64_t>(n))))
        throw NotFinite(fmt::format("{}: a predicted {} is not finite", name_of_image(targets[n]), what_));
  }

 private:
  Tensor values_;
  const char* what_;
  HostCopy count_;
};

// A candidate as a box in pixels of the image that the model got.
struct Found {
  ImageDetection detection;
  float logit;
};

// Returns the best of them, none of which overlaps a better one of its class by more than options.nms.
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
                     .least = least_logit(o.score_threshold),
                     .map = {}};
  std::vector<FiniteCheck> checks;
  std::vector<LevelSearch> searches;
  std::vector<LevelSearchOnGpu> on_gpu;  // one per level, or none
  std::vector<std::vector<MapSize>> valid;
  Tensors logits, deltas;
  for (int64_t l = 0; l < output.maps.size(); ++l) {
    const auto level = static_cast<size_t>(l);
    checks.emplace_back(output.logits[level], "score");
    checks.emplace_back(output.deltas[level], "box");
    search.map = output.maps[l];
    searches.push_back(search);
    valid.emplace_back();
    for (const ImageSize& size : output.sizes) valid.back().push_back(o.anchors.maps(size)[l]);
    logits.push_back(output.logits[level].value().to(DType::kF32).contiguous());
    deltas.push_back(output.deltas[level].value().to(DType::kF32).contiguous());
    if (logits.back().device() == Device::kCpu) continue;
    const Tensor hidden = o.anchors.padding(l, search.map, output.sizes, 1).unsqueeze(-1);
    on_gpu.emplace_back(search, logits.back(), deltas.back(), hidden);
  }
  // The copy that was started last arrives last.
  if (!on_gpu.empty()) on_gpu.back().wait();
  for (const FiniteCheck& check : checks) check.need(targets);
  std::vector<std::vector<Found>> found(N);
  for (int64_t l = 0; l < output.maps.size(); ++l) {
    const auto level = static_cast<size_t>(l);
    std::vector<std::vector<Candidate>> candidates;
    if (on_gpu.empty()) {
      for (size_t n = 0; n < N; ++n)
        candidates.push_back(searches[level].of_image(
            logits[level].select(0, static_cast<int64_t>(n)).data<float>(),
            deltas[level].select(0, static_cast<int64_t>(n)).data<float>(), valid[level][n]));
    } else {
      candidates = on_gpu[level].found();
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
