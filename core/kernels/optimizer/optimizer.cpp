#include "core/kernels/optimizer/optimizer.h"

#include "core/kernels/optimizer/update.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

// Tensors are cut into pieces of this many elements; one functor index updates one piece.
constexpr int64_t kPiece = 8192;

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
    double sum =
        ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    sums[i] = pieces[i].guard ? 0 * sum : sum;
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

void gradient_norm_generic(Tensor& norm, std::span<const Tensor> grads, std::span<const Tensor> guards) {
  std::vector<SquarePiece> pieces = square_pieces(norm, grads, guards, kPiece);
  auto n = static_cast<int64_t>(pieces.size());
  Tensor table = upload_pieces(pieces, norm.device()), sums = Tensor::empty({n}, DType::kF64, norm.device());
  for_each(n, SumSquares{pieces_of<SquarePiece>(table), sums.data<double>()}, kPiece);
  for_each(1, RootOfSum{sums.data<double>(), n, norm.data<double>()}, n);
}

struct AdamWStep {
  const AdamWPiece* pieces;
  const double* norm;
  AdamWConstants constants;
  SACCADE_HD void operator()(int64_t i) const {
    if (!usable(*norm)) return;
    const AdamWPiece piece = pieces[i];
    const AdamWConstants c = constants;
    const float scale = clip_scale(*norm, c.max_norm);
    float* __restrict__ p = piece.p;
    float* __restrict__ m = piece.m;
    float* __restrict__ v = piece.v;
    const float* __restrict__ g = piece.g;
    for (int64_t j = 0; j < piece.count; ++j) adamw_element(piece, c, g[j] * scale, p[j], m[j], v[j]);
    if (!piece.average) return;
    float* __restrict__ average = piece.average;
    for (int64_t j = 0; j < piece.count; ++j) average[j] = moved(average[j], p[j], c.average_weight);
  }
};

void adamw_step_generic(const Tensor& norm, double max_norm, std::span<OptimizerItem> items,
                        const AdamWOptions& o, double average_weight) {
  std::vector<AdamWPiece> pieces = adamw_pieces(items, o, kPiece);
  Tensor table = upload_pieces(pieces, norm.device());
  for_each(static_cast<int64_t>(pieces.size()),
           AdamWStep{pieces_of<AdamWPiece>(table), norm.data<double>(), {max_norm, o, average_weight}},
           8 * kPiece);
}

struct SgdStep {
  const SgdPiece* pieces;
  const double* norm;
  double max_norm;
  SACCADE_HD void operator()(int64_t i) const {
    if (!usable(*norm)) return;
    const SgdPiece piece = pieces[i];
    const float scale = clip_scale(*norm, max_norm);
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
  std::vector<SgdPiece> pieces = sgd_pieces(items, momentum, kPiece);
  Tensor table = upload_pieces(pieces, norm.device());
  for_each(static_cast<int64_t>(pieces.size()),
           SgdStep{pieces_of<SgdPiece>(table), norm.data<double>(), max_norm}, 4 * kPiece);
}

struct EmaUpdate {
  const EmaPiece* pieces;
  const double* norm;
  float weight;
  SACCADE_HD void operator()(int64_t i) const {
    if (!usable(*norm)) return;
    const EmaPiece piece = pieces[i];
    float* __restrict__ average = piece.average;
    const float* __restrict__ value = piece.value;
    for (int64_t j = 0; j < piece.count; ++j) average[j] = moved(average[j], value[j], weight);
  }
};

void ema_update_generic(const Tensor& norm, std::span<Tensor> averages, std::span<const Tensor> values,
                        double weight) {
  std::vector<EmaPiece> pieces = ema_pieces(averages, values, kPiece);
  Tensor table = upload_pieces(pieces, norm.device());
  for_each(static_cast<int64_t>(pieces.size()),
           EmaUpdate{pieces_of<EmaPiece>(table), norm.data<double>(), static_cast<float>(weight)},
           2 * kPiece);
}

SACCADE_REGISTER_KERNEL(gradient_norm, &gradient_norm_generic);
SACCADE_REGISTER_KERNEL(adamw_step, &adamw_step_generic);
SACCADE_REGISTER_KERNEL(sgd_step, &sgd_step_generic);
SACCADE_REGISTER_KERNEL(ema_update, &ema_update_generic);

}  // namespace
}  // namespace saccade::kernels
