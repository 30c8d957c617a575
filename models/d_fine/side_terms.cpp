// Losses of the distributions of sides (Peng et al. 2024, D-FINE): "fgl", the cross entropy with the two bins
// next to a side's true position, and "ddf", which distils the last layer into earlier ones.
#include <algorithm>
#include <cmath>

#include "core/kernels/top_k/top_k.h"
#include "models/d_fine/distribution.h"
#include "models/detection/loss_term.h"

namespace saccade {
namespace {

struct SideTerm : LossTerm {
  bool applies(const LayerPrediction& predicted) const override { return predicted.sides.logits.defined(); }
  bool of_boxes() const override { return true; }
};

// [G, N, Q] or [G, N, Q, C] -> rows [G N Q, C]
Var rows_of(const Var& x) {
  return reshape(x, {x.dim(0) * x.dim(1) * x.dim(2), x.rank() == 4 ? x.dim(3) : 1});
}

// Fine-grained localisation loss (eq. 5); each pair is weighted by the overlap that its box has reached.
class LocalisationTerm : public SideTerm {
  Var sum(const LayerPrediction& predicted, const MatchedQueries& matched) const override {
    const SidePrediction& sides = predicted.sides;
    const int64_t P = matched.indices.dim(0), bins = sides.values.dim(0);
    if (P == 0) return Var(Tensor::zeros({predicted.boxes.dim(0)}, DType::kF32, predicted.boxes.device()));
    const Var logits = index_select(rows_of(sides.logits), matched.indices);
    Var target, overlap;
    {
      NoGrad no_grad;
      const BinScale scale{sides.values, sides.scale};
      const Var references = index_select(rows_of(sides.references), matched.indices);
      target = side_targets(references, Var(matched.truth), scale);
      const Var qualities(matched_quality(predicted.logits, matched));
      overlap = index_select(rows_of(qualities), matched.indices);
    }
    const Var log_p = log_softmax(reshape(in_sum_dtype(logits), {P, kSides, bins}));
    const int of_pair[] = {1, 2};
    const Var entropy = neg(saccade::sum(mul(target, log_p), of_pair));
    return sum_weighted(mul(entropy, reshape(overlap, {P})), predicted, matched);
  }
};

constexpr double kTemperature = 5;

// Decoupled distillation focal loss (eq. 6): matched and other queries of an image are weighted by the square
// roots of their numbers. The official code treats all images of a batch as one; here each is separate, so
// that no image's loss depends on the others.
class DistillationTerm : public SideTerm {
  Var sum(const LayerPrediction& predicted, const MatchedQueries& matched) const override {
    const SidePrediction& sides = predicted.sides;
    const int64_t G = predicted.boxes.dim(0), N = predicted.boxes.dim(1), Q = predicted.boxes.dim(2),
                  bins = sides.values.dim(0);
    const Var tempered =
        mul_scalar(reshape(in_sum_dtype(sides.logits), {G, N, Q, kSides, bins}), 1 / kTemperature);
    Var teacher, weight;
    {
      NoGrad no_grad;
      teacher = log_softmax(slice(tempered, 0, G - 1, G));
      weight = weights_of(predicted, matched);
    }
    const int of_query[] = {3, 4}, of_layer[] = {1, 2};
    const Var distance = saccade::sum(mul(exp(teacher), sub(teacher, log_softmax(tempered))), of_query);
    return mul_scalar(saccade::sum(mul(distance, weight), of_layer), kTemperature * kTemperature);
  }
  double divisor(const QueryCounts& step) const override { return step.images; }

  // [G, N, Q]: for a query with an object the overlap of its box, else the teacher's highest score;
  // both times the query's share of the mean.
  static Var weights_of(const LayerPrediction& predicted, const MatchedQueries& matched) {
    const int64_t G = predicted.boxes.dim(0), N = predicted.boxes.dim(1), Q = predicted.boxes.dim(2);
    std::vector<float> has_object(static_cast<size_t>(N * Q)), part(static_cast<size_t>(N * Q));
    for (int64_t row : matched.rows)
      if (row < N * Q) has_object[static_cast<size_t>(row)] = 1;  // all layers have the same rows
    for (int64_t n = 0; n < N; ++n) {
      const auto begin = has_object.begin() + n * Q;
      const auto with = static_cast<double>(std::count(begin, begin + Q, 1.0F)),
                 without = static_cast<double>(Q) - with;
      const auto shared = static_cast<double>(matched.shared_pairs[static_cast<size_t>(n)]);
      const double a = std::sqrt(shared), b = std::sqrt(static_cast<double>(matched.shared_queries) - shared);
      for (int64_t q = 0; q < Q; ++q) {
        const auto at = static_cast<size_t>(n * Q + q);
        const double of_kind = has_object[at] != 0 ? a / with : b / without;
        part[at] = static_cast<float>(of_kind / ((a + b) * kSides));
      }
    }
    const Device device = predicted.boxes.device();
    const Var teacher = slice(cast(predicted.logits, DType::kF32), 0, G - 1, G);
    Tensor best = Tensor::empty({1, N, Q}, DType::kF32, device);
    kernels::row_max(sigmoid(teacher).value().contiguous(), best);
    const Var object(Tensor::from<float>({1, N, Q}, has_object, device)),
        other = add_scalar(neg(object), 1), parts(Tensor::from<float>({1, N, Q}, part, device));
    return mul(add(Var(matched_quality(predicted.logits, matched)), mul(Var(best), other)), parts);
  }
};

[[maybe_unused]] const bool fgl_registered = register_loss_term<LocalisationTerm>("fgl", __FILE__);
[[maybe_unused]] const bool ddf_registered = register_loss_term<DistillationTerm>("ddf", __FILE__);

}  // namespace
}  // namespace saccade
