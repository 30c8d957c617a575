#include "core/kernels/match_cost.h"

#include "core/launch.h"
#include "core/math.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kQueries = 256;  // of one functor call

SACCADE_HD float power(float p, float gamma) {
  if (gamma == 2.0f) return p * p;
  return gamma == 0.0f ? 1.0f : math::exp(gamma * math::log(p));
}

struct MatchCost {
  const float *scores, *boxes, *truth;
  const int64_t *images, *labels;
  float* cost;
  int64_t queries, classes, chunks;
  float class_cost, bbox_cost, giou_cost, alpha, gamma;
  bool probabilities;

  SACCADE_HD void operator()(int64_t i) const {
    int64_t r = i / chunks, begin = i % chunks * kQueries;
    int64_t end = begin + kQueries < queries ? begin + kQueries : queries;
    int64_t n = images[r], K = classes;
    const float* s = scores + n * queries * K + labels[r];
    float* out = cost + r * queries;
    if (probabilities) {
      for (int64_t q = begin; q < end; ++q) out[q] = -class_cost * s[q * K];
    } else {
      // alpha (1 - p)^gamma -log(p + 1e-8) - (1 - alpha) p^gamma -log(1 - p + 1e-8)
      for (int64_t q = begin; q < end; ++q) {
        float p = math::sigmoid(s[q * K]), rest = 1.0f - p;
        float as_object = alpha * power(rest, gamma) * math::log(p + 1e-8f);
        float as_other = (1.0f - alpha) * power(p, gamma) * math::log(rest + 1e-8f);
        out[q] = class_cost * (as_other - as_object);
      }
    }
    const float *b = boxes + n * queries * 4, *t = truth + r * 4;
    float tx0 = t[0] - 0.5f * t[2], tx1 = t[0] + 0.5f * t[2];
    float ty0 = t[1] - 0.5f * t[3], ty1 = t[1] + 0.5f * t[3];
    float area = t[2] * t[3];
    for (int64_t q = begin; q < end; ++q) {
      float cx = b[q * 4], cy = b[q * 4 + 1], w = b[q * 4 + 2], h = b[q * 4 + 3];
      float distance =
          std::fabs(cx - t[0]) + std::fabs(cy - t[1]) + std::fabs(w - t[2]) + std::fabs(h - t[3]);
      float x0 = cx - 0.5f * w, x1 = cx + 0.5f * w, y0 = cy - 0.5f * h, y1 = cy + 0.5f * h;
      float iw = (x1 < tx1 ? x1 : tx1) - (x0 > tx0 ? x0 : tx0);
      float ih = (y1 < ty1 ? y1 : ty1) - (y0 > ty0 ? y0 : ty0);
      float both = (iw > 0 ? iw : 0.0f) * (ih > 0 ? ih : 0.0f);
      float either = w * h + area - both;
      float hull =
          ((x1 > tx1 ? x1 : tx1) - (x0 < tx0 ? x0 : tx0)) * ((y1 > ty1 ? y1 : ty1) - (y0 < ty0 ? y0 : ty0));
      // As the loss (losses.cpp) does with boxes without area; a NaN stays one through `distance`.
      either = either < 1e-16f ? 1e-16f : either;
      hull = hull < 1e-16f ? 1e-16f : hull;
      out[q] += bbox_cost * distance - giou_cost * (both / either + either / hull - 1.0f);
    }
  }
};

void match_cost_generic(const Tensor& scores, const Tensor& boxes, const Tensor& images, const Tensor& labels,
                        const Tensor& truth, const MatchCostParams& p, Tensor& cost) {
  int64_t queries = scores.dim(1), chunks = (queries + kQueries - 1) / kQueries;
  MatchCost f{scores.data<float>(),
              boxes.data<float>(),
              truth.data<float>(),
              images.data<int64_t>(),
              labels.data<int64_t>(),
              cost.data<float>(),
              queries,
              scores.dim(2),
              chunks,
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
