#include "core/kernels/adamw.h"

#include <cmath>
#include <vector>

#include "core/launch.h"

namespace saccade::kernels {
namespace {

// Tensors are cut into pieces of this many elements; one functor index updates one piece.
constexpr int64_t kPiece = 8192;

// Cuts every tensor of a list into pieces: Piece is a plain struct whose first members are tensor-wide and
// whose `count` says how many elements it covers. The table lives where the tensors live.
template <class Piece>
Tensor upload(const std::vector<Piece>& pieces, Device device) {
  auto* bytes = reinterpret_cast<const uint8_t*>(pieces.data());
  return Tensor::from(Shape{static_cast<int64_t>(pieces.size() * sizeof(Piece))},
                      std::span<const uint8_t>(bytes, pieces.size() * sizeof(Piece)), device);
}

template <class Piece>
const Piece* pieces_of(const Tensor& table) {
  return static_cast<const Piece*>(table.raw());
}

// f(begin, count) for each piece of n elements.
template <class F>
void cut(int64_t n, F&& f) {
  for (int64_t begin = 0; begin < n; begin += kPiece) f(begin, std::min(kPiece, n - begin));
}

void check_list(const char* op, const Tensor& t, int64_t numel) {
  SACCADE_CHECK(t.dtype() == DType::kF32 && t.is_contiguous() && t.numel() == numel,
                "[{}] got a {} tensor of shape {}, expected contiguous f32 with {} elements", op,
                name_of(t.dtype()), t.shape().to_string(), numel);
}

// ---- gradient norm
// --------------------------------------------------------------------------------------------------

struct SquarePiece {
  const float* x;
  int64_t count;
};

struct SumSquares {
  const SquarePiece* pieces;
  double* sums;
  SACCADE_HD void operator()(int64_t i) const {
    const float* x = pieces[i].x;
    int64_t n = pieces[i].count, j = 0;
    // Eight running sums, so that the compiler can use vectors; their order is fixed.
    double lanes[8] = {};
    for (; j + 8 <= n; j += 8)
      for (int k = 0; k < 8; ++k) lanes[k] += static_cast<double>(x[j + k]) * static_cast<double>(x[j + k]);
    for (int k = 0; j < n; ++j, ++k) lanes[k] += static_cast<double>(x[j]) * static_cast<double>(x[j]);
    sums[i] =
        ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }
};

struct RootOfSum {
  const double* sums;
  int64_t count;
  double* norm;
  SACCADE_HD void operator()(int64_t) const {
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += sums[i];
    *norm = sqrt(total);
  }
};

void gradient_norm_generic(Tensor& norm, std::span<const Tensor> grads) {
  SACCADE_CHECK(norm.dtype() == DType::kF64 && norm.numel() == 1, "[gradient_norm] the norm must be one f64");
  std::vector<SquarePiece> pieces;
  for (const Tensor& g : grads) {
    check_list("gradient_norm", g, g.numel());
    const float* x = g.data<float>();
    cut(g.numel(), [&](int64_t begin, int64_t count) { pieces.push_back({x + begin, count}); });
  }
  auto n = static_cast<int64_t>(pieces.size());
  Tensor table = upload(pieces, norm.device()), sums = Tensor::empty({n}, DType::kF64, norm.device());
  for_each(n, SumSquares{pieces_of<SquarePiece>(table), sums.data<double>()}, kPiece);
  for_each(1, RootOfSum{sums.data<double>(), n, norm.data<double>()}, n);
}

// ---- steps
// ----------------------------------------------------------------------------------------------------------

SACCADE_HD float clip_scale(const double* norm, double max_norm) {
  double scale = max_norm > 0 ? max_norm / (*norm + 1e-6) : 1.0;
  return static_cast<float>(scale < 1 ? scale : 1.0);
}

struct AdamWPiece {
  float* p;
  const float* g;
  float* m;
  float* v;
  int64_t count;
  float keep;        // 1 - lr * decay
  float step_size;   // lr / (1 - beta1^t)
  float root_bias2;  // 1 / sqrt(1 - beta2^t)
};

struct AdamWStep {
  const AdamWPiece* pieces;
  const double* norm;
  double max_norm;
  float beta1, rest1, beta2, rest2, epsilon;  // rest = 1 - beta, rounded once
  SACCADE_HD void operator()(int64_t i) const {
    const AdamWPiece piece = pieces[i];
    const float scale = clip_scale(norm, max_norm), b1 = beta1, c1 = rest1, b2 = beta2, c2 = rest2,
                eps = epsilon;
    float* __restrict__ p = piece.p;
    float* __restrict__ m = piece.m;
    float* __restrict__ v = piece.v;
    const float* __restrict__ g = piece.g;
    for (int64_t j = 0; j < piece.count; ++j) {
      float d = g[j] * scale;
      float mj = b1 * m[j] + c1 * d;
      float vj = b2 * v[j] + c2 * d * d;
      m[j] = mj;
      v[j] = vj;
      p[j] = p[j] * piece.keep - piece.step_size * (mj / (sqrtf(vj) * piece.root_bias2 + eps));
    }
  }
};

void adamw_step_generic(const Tensor& norm, double max_norm, std::span<OptimizerItem> items,
                        const AdamWOptions& o) {
  std::vector<AdamWPiece> pieces;
  for (OptimizerItem& item : items) {
    int64_t n = item.value.numel();
    for (const Tensor* t : {&item.value, &item.grad, &item.exp_avg, &item.exp_avg_sq})
      check_list("adamw_step", *t, n);
    auto t = static_cast<double>(item.step);
    AdamWPiece whole{item.value.data<float>(),
                     item.grad.data<float>(),
                     item.exp_avg.data<float>(),
                     item.exp_avg_sq.data<float>(),
                     n,
                     static_cast<float>(1 - item.learning_rate * item.weight_decay),
                     static_cast<float>(item.learning_rate / (1 - std::pow(o.beta1, t))),
                     static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, t)))};
    cut(n, [&](int64_t begin, int64_t count) {
      AdamWPiece piece = whole;
      piece.p += begin;
      piece.g += begin;
      piece.m += begin;
      piece.v += begin;
      piece.count = count;
      pieces.push_back(piece);
    });
    for (Tensor* t2 : {&item.value, &item.exp_avg, &item.exp_avg_sq}) t2->bump_version();
  }
  Tensor table = upload(pieces, norm.device());
  for_each(static_cast<int64_t>(pieces.size()),
           AdamWStep{pieces_of<AdamWPiece>(table), norm.data<double>(), max_norm, static_cast<float>(o.beta1),
                     static_cast<float>(1 - o.beta1), static_cast<float>(o.beta2),
                     static_cast<float>(1 - o.beta2), static_cast<float>(o.epsilon)},
           8 * kPiece);
}

struct SgdPiece {
  float* p;
  const float* g;
  float* m;  // null without momentum
  int64_t count;
  float learning_rate, weight_decay, momentum;  // momentum is 0 at the first step
};

struct SgdStep {
  const SgdPiece* pieces;
  const double* norm;
  double max_norm;
  SACCADE_HD void operator()(int64_t i) const {
    const SgdPiece piece = pieces[i];
    const float scale = clip_scale(norm, max_norm);
    float* __restrict__ p = piece.p;
    const float* __restrict__ g = piece.g;
    if (piece.m == nullptr) {
      for (int64_t j = 0; j < piece.count; ++j)
        p[j] -= piece.learning_rate * (g[j] * scale + piece.weight_decay * p[j]);
      return;
    }
    float* __restrict__ m = piece.m;
    for (int64_t j = 0; j < piece.count; ++j) {
      float mj = piece.momentum * m[j] + (g[j] * scale + piece.weight_decay * p[j]);
      m[j] = mj;
      p[j] -= piece.learning_rate * mj;
    }
  }
};

void sgd_step_generic(const Tensor& norm, double max_norm, std::span<OptimizerItem> items, double momentum) {
  std::vector<SgdPiece> pieces;
  for (OptimizerItem& item : items) {
    int64_t n = item.value.numel();
    for (const Tensor* t : {&item.value, &item.grad}) check_list("sgd_step", *t, n);
    bool has_momentum = item.exp_avg.defined();
    if (has_momentum) check_list("sgd_step", item.exp_avg, n);
    float* p = item.value.data<float>();
    const float* g = item.grad.data<float>();
    float* m = has_momentum ? item.exp_avg.data<float>() : nullptr;
    cut(n, [&](int64_t begin, int64_t count) {
      pieces.push_back({p + begin, g + begin, m ? m + begin : nullptr, count,
                        static_cast<float>(item.learning_rate), static_cast<float>(item.weight_decay),
                        item.step == 1 ? 0.0f : static_cast<float>(momentum)});
    });
    item.value.bump_version();
    if (has_momentum) item.exp_avg.bump_version();
  }
  Tensor table = upload(pieces, norm.device());
  for_each(static_cast<int64_t>(pieces.size()),
           SgdStep{pieces_of<SgdPiece>(table), norm.data<double>(), max_norm}, 4 * kPiece);
}

// ---- moving average
// -------------------------------------------------------------------------------------------------

struct EmaPiece {
  float* average;
  const float* value;
  int64_t count;
};

struct EmaUpdate {
  const EmaPiece* pieces;
  float weight;
  SACCADE_HD void operator()(int64_t i) const {
    const EmaPiece piece = pieces[i];
    float* __restrict__ average = piece.average;
    const float* __restrict__ value = piece.value;
    for (int64_t j = 0; j < piece.count; ++j) average[j] += weight * (value[j] - average[j]);
  }
};

void ema_update_generic(const Tensor& anchor, std::span<Tensor> averages, std::span<const Tensor> values,
                        double weight) {
  SACCADE_CHECK(averages.size() == values.size(), "[ema_update] {} averages of {} values", averages.size(),
                values.size());
  std::vector<EmaPiece> pieces;
  for (size_t k = 0; k < values.size(); ++k) {
    int64_t n = values[k].numel();
    check_list("ema_update", averages[k], n);
    check_list("ema_update", values[k], n);
    float* a = averages[k].data<float>();
    const float* v = values[k].data<float>();
    cut(n, [&](int64_t begin, int64_t count) { pieces.push_back({a + begin, v + begin, count}); });
    averages[k].bump_version();
  }
  Tensor table = upload(pieces, anchor.device());
  for_each(static_cast<int64_t>(pieces.size()),
           EmaUpdate{pieces_of<EmaPiece>(table), static_cast<float>(weight)}, 2 * kPiece);
}

SACCADE_REGISTER_KERNEL(gradient_norm, &gradient_norm_generic);
SACCADE_REGISTER_KERNEL(adamw_step, &adamw_step_generic);
SACCADE_REGISTER_KERNEL(sgd_step, &sgd_step_generic);
SACCADE_REGISTER_KERNEL(ema_update, &ema_update_generic);

}  // namespace
}  // namespace saccade::kernels
