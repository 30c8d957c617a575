// How the optimizer's kernels see their tensors, and what they do with one element: shared by the generic
// kernels and the tuned ones of core/kernels/optimizer/optimizer_cuda.cu.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "core/kernels/common/pieces.h"
#include "core/kernels/optimizer/optimizer.h"
#include "core/tensor/hd.h"

namespace saccade::kernels {

inline void check_list(const char* op, const Tensor& t, int64_t numel) {
  SACCADE_CHECK(t.dtype() == DType::kF32 && t.is_contiguous() && t.numel() == numel,
                "[{}] got a {} tensor of shape {}, expected contiguous f32 with {} elements", op,
                name_of(t.dtype()), t.shape().to_string(), numel);
}

struct SquarePiece {
  const float* x;
  int64_t count;
  bool guard;  // adds 0 when finite, else NaN
};

inline std::vector<SquarePiece> square_pieces(const Tensor& norm, std::span<const Tensor> grads,
                                              std::span<const Tensor> guards, int64_t piece) {
  SACCADE_CHECK(norm.dtype() == DType::kF64 && norm.numel() == 1, "[gradient_norm] the norm must be one f64");
  std::vector<SquarePiece> pieces;
  for (bool guard : {false, true}) {
    for (const Tensor& t : guard ? guards : grads) {
      check_list("gradient_norm", t, t.numel());
      const float* x = t.data<float>();
      cut(t.numel(), piece, [&](int64_t begin, int64_t count) {
        pieces.push_back({x + begin, count, guard});
      });
    }
  }
  return pieces;
}

// Whether a step with this gradient norm may be done.
SACCADE_HD bool usable(double norm) { return norm <= std::numeric_limits<double>::max(); }

SACCADE_HD float clip_scale(double norm, double max_norm) {
  double scale = max_norm > 0 ? max_norm / (norm + 1e-6) : 1.0;
  return static_cast<float>(scale < 1 ? scale : 1.0);
}

struct AdamWPiece {
  float* p;
  const float* g;
  float* m;
  float* v;
  float* average;  // null: none
  int64_t count;
  float keep;        // 1 - lr * decay
  float step_size;   // lr / (1 - beta1^t)
  float root_bias2;  // 1 / sqrt(1 - beta2^t)
};

struct AdamWConstants {
  double max_norm;
  float beta1, rest1, beta2, rest2, epsilon;  // rest = 1 - beta, rounded once
  float average_weight;
  AdamWConstants(double clip_norm, const AdamWOptions& o, double weight)
      : max_norm(clip_norm),
        beta1(static_cast<float>(o.beta1)),
        rest1(static_cast<float>(1 - o.beta1)),
        beta2(static_cast<float>(o.beta2)),
        rest2(static_cast<float>(1 - o.beta2)),
        epsilon(static_cast<float>(o.epsilon)),
        average_weight(static_cast<float>(weight)) {}
};

// The moments and the parameter of one element; d is its gradient after clipping.
SACCADE_HD void adamw_element(const AdamWPiece& piece, const AdamWConstants& c, float d, float& p, float& m,
                              float& v) {
  m = c.beta1 * m + c.rest1 * d;
  v = c.beta2 * v + c.rest2 * d * d;
  p = p * piece.keep - piece.step_size * (m / (sqrtf(v) * piece.root_bias2 + c.epsilon));
}

// The moving average of one element.
SACCADE_HD float moved(float average, float value, float weight) {
  return average + weight * (value - average);
}

inline std::vector<AdamWPiece> adamw_pieces(std::span<OptimizerItem> items, const AdamWOptions& o,
                                            int64_t piece) {
  std::vector<AdamWPiece> pieces;
  for (OptimizerItem& item : items) {
    int64_t n = item.value.numel();
    for (const Tensor* t : {&item.value, &item.grad, &item.exp_avg, &item.exp_avg_sq})
      check_list("adamw_step", *t, n);
    if (item.average.defined()) check_list("adamw_step", item.average, n);
    auto t = static_cast<double>(item.step);
    AdamWPiece whole{item.value.data<float>(),
                     item.grad.data<float>(),
                     item.exp_avg.data<float>(),
                     item.exp_avg_sq.data<float>(),
                     item.average.defined() ? item.average.data<float>() : nullptr,
                     n,
                     static_cast<float>(1 - item.learning_rate * item.weight_decay),
                     static_cast<float>(item.learning_rate / (1 - std::pow(o.beta1, t))),
                     static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, t)))};
    cut(n, piece, [&](int64_t begin, int64_t count) {
      AdamWPiece part = whole;
      part.p += begin;
      part.g += begin;
      part.m += begin;
      part.v += begin;
      if (part.average) part.average += begin;
      part.count = count;
      pieces.push_back(part);
    });
    for (Tensor* t2 : {&item.value, &item.exp_avg, &item.exp_avg_sq, &item.average})
      if (t2->defined()) t2->bump_version();
  }
  return pieces;
}

struct SgdPiece {
  float* p;
  const float* g;
  float* m;  // null without momentum
  int64_t count;
  float learning_rate, weight_decay, momentum;  // momentum is 0 at the first step
};

inline std::vector<SgdPiece> sgd_pieces(std::span<OptimizerItem> items, double momentum, int64_t piece) {
  std::vector<SgdPiece> pieces;
  for (OptimizerItem& item : items) {
    int64_t n = item.value.numel();
    for (const Tensor* t : {&item.value, &item.grad}) check_list("sgd_step", *t, n);
    bool has_momentum = item.exp_avg.defined();
    if (has_momentum) check_list("sgd_step", item.exp_avg, n);
    float* p = item.value.data<float>();
    const float* g = item.grad.data<float>();
    float* m = has_momentum ? item.exp_avg.data<float>() : nullptr;
    cut(n, piece, [&](int64_t begin, int64_t count) {
      pieces.push_back({p + begin, g + begin, m ? m + begin : nullptr, count,
                        static_cast<float>(item.learning_rate), static_cast<float>(item.weight_decay),
                        item.step == 1 ? 0.0f : static_cast<float>(momentum)});
    });
    item.value.bump_version();
    if (has_momentum) item.exp_avg.bump_version();
  }
  return pieces;
}

struct EmaPiece {
  float* average;
  const float* value;
  int64_t count;
};

inline std::vector<EmaPiece> ema_pieces(std::span<Tensor> averages, std::span<const Tensor> values,
                                        int64_t piece) {
  SACCADE_CHECK(averages.size() == values.size(), "[ema_update] {} averages of {} values", averages.size(),
                values.size());
  std::vector<EmaPiece> pieces;
  for (size_t k = 0; k < values.size(); ++k) {
    int64_t n = values[k].numel();
    check_list("ema_update", averages[k], n);
    check_list("ema_update", values[k], n);
    float* a = averages[k].data<float>();
    const float* v = values[k].data<float>();
    cut(n, piece, [&](int64_t begin, int64_t count) { pieces.push_back({a + begin, v + begin, count}); });
    averages[k].bump_version();
  }
  return pieces;
}

}  // namespace saccade::kernels
