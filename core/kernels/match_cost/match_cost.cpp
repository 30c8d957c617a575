#include "core/kernels/match_cost/match_cost.h"

#include "core/runtime/launch.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
namespace {

constexpr bool kOnGpu = kCompiledDevice == Device::kCuda;
constexpr int64_t kQueries = kOnGpu ? 1 : 256;  // per functor call

struct MatchCost {
  const float *scores, *boxes, *truth;
  const int64_t *images, *labels;
  float* cost;
  int64_t queries, classes, objects;
  float class_cost, bbox_cost, giou_cost, alpha, gamma;
  bool probabilities;

  // class_cost * (alpha (1 - p)^gamma -log(p + 1e-8) - (1 - alpha) p^gamma -log(1 - p + 1e-8))
  template <bool kSquare>
  SACCADE_HD void focal_costs(const float* logits, int64_t count, float* __restrict out) const {
    float g = gamma, object = class_cost * alpha, other = class_cost * (1.0f - alpha);
    for (int64_t q = 0; q < count; ++q) {
      float p = math::sigmoid(logits[q]), rest = 1.0f - p;
      float log_p = math::log(p + 1e-8f), log_rest = math::log(rest + 1e-8f);
      float p_power = kSquare ? p * p : math::exp(g * log_p);
      float rest_power = kSquare ? rest * rest : math::exp(g * log_rest);
      out[q] = other * p_power * log_rest - object * rest_power * log_p;
    }
  }
  SACCADE_HD void operator()(int64_t i) const {
    // All objects of a chunk of queries in sequence: its scores, a strided column per class, stay in the
    // cache. On the GPU neighbouring threads take neighbouring queries, whose costs are adjacent.
    int64_t r = kOnGpu ? i / queries : i % objects, begin = kOnGpu ? i % queries : i / objects * kQueries;
    int64_t end = begin + kQueries < queries ? begin + kQueries : queries;
    int64_t n = images[r], K = classes, count = end - begin;
    const float* s = scores + (n * queries + begin) * K + labels[r];
    float* __restrict out = cost + r * queries + begin;
    if (probabilities) {
      for (int64_t q = 0; q < count; ++q) out[q] = -class_cost * s[q * K];
    } else {
      float logits[kQueries];
      for (int64_t q = 0; q < count; ++q) logits[q] = s[q * K];
      if (gamma == 2.0f) {
        focal_costs<true>(logits, count, out);
      } else {
        focal_costs<false>(logits, count, out);
      }
    }
    const float *b = boxes + (n * queries + begin) * 4, *t = truth + r * 4;
    float t0 = t[0], t1 = t[1], t2 = t[2], t3 = t[3], by_box = bbox_cost, by_giou = giou_cost;
    float tx0 = t0 - 0.5f * t2, tx1 = t0 + 0.5f * t2;
    float ty0 = t1 - 0.5f * t3, ty1 = t1 + 0.5f * t3;
    float area = t2 * t3;
    for (int64_t q = 0; q < count; ++q) {
      float cx = b[q * 4], cy = b[q * 4 + 1], w = b[q * 4 + 2], h = b[q * 4 + 3];
      float distance = std::fabs(cx - t0) + std::fabs(cy - t1) + std::fabs(w - t2) + std::fabs(h - t3);
      float x0 = cx - 0.5f * w, x1 = cx + 0.5f * w, y0 = cy - 0.5f * h, y1 = cy + 0.5f * h;
      float iw = (x1 < tx1 ? x1 : tx1) - (x0 > tx0 ? x0 : tx0);
      float ih = (y1 < ty1 ? y1 : ty1) - (y0 > ty0 ? y0 : ty0);
      float both = (iw > 0 ? iw : 0.0f) * (ih > 0 ? ih : 0.0f);
      float either = w * h + area - both;
      float hull =
          ((x1 > tx1 ? x1 : tx1) - (x0 < tx0 ? x0 : tx0)) * ((y1 > ty1 ? y1 : ty1) - (y0 < ty0 ? y0 : ty0));
      // Like the loss (losses.cpp) for boxes without area; a NaN propagates through `distance`.
      either = either < 1e-16f ? 1e-16f : either;
      hull = hull < 1e-16f ? 1e-16f : hull;
      out[q] += by_box * distance - by_giou * (both / either + either / hull - 1.0f);
    }
  }
};

void match_cost_generic(const Tensor& scores, const Tensor& boxes, const Tensor& images, const Tensor& labels,
                        const Tensor& truth, const MatchCostParams& p, Tensor& cost) {
  int64_t queries = scores.dim(1), chunks = ceil_div(queries, kQueries);
  MatchCost f{scores.data<float>(),
              boxes.data<float>(),
              truth.data<float>(),
              images.data<int64_t>(),
              labels.data<int64_t>(),
              cost.data<float>(),
              queries,
              scores.dim(2),
              images.numel(),
              static_cast<float>(p.class_cost),
              static_cast<float>(p.bbox_cost),
              static_cast<float>(p.giou_cost),
              static_cast<float>(p.alpha),
              static_cast<float>(p.gamma),
              p.probabilities};
  for_each(images.numel() * chunks, f, (queries < kQueries ? queries : kQueries) * 80);
}

SACCADE_REGISTER_KERNEL(match_cost, &match_cost_generic);

}  // namespace
}  // namespace saccade::kernels
