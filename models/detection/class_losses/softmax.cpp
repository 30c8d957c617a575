// DETR's cross entropy: the last column means "no object", and each query yields its best class.
#include <algorithm>
#include <cmath>
#include <string>

#include "core/distributed/process_group.h"
#include "core/tensor/error.h"
#include "models/detection/class_loss.h"

namespace saccade {
namespace {

class SoftmaxLoss : public ClassLoss {
 public:
  explicit SoftmaxLoss(const ClassLossOptions& options) : options_(options) {}
  int64_t extra_columns() const override { return 1; }
  bool matches_probabilities() const override { return true; }

  // Divided by the sum of the class weights over all queries, of all processes: they add up their losses.
  Sum sum(const Var& logits, const MatchedQueries& matched, double) const override {
    const int64_t G = logits.dim(0), N = logits.dim(1), Q = logits.dim(2), K = logits.dim(3);
    std::vector<float> weights(static_cast<size_t>(K), 1.f);
    weights.back() = static_cast<float>(options_.no_object_weight);
    // Of one query after the other: a sum in another order would round in another way.
    std::vector<float> weight_of(static_cast<size_t>(G * N * Q), weights.back());
    for (size_t i = 0; i < matched.rows.size(); ++i)
      weight_of[static_cast<size_t>(matched.rows[i])] = weights[static_cast<size_t>(matched.labels[i])];
    std::vector<double> totals;
    for (int64_t g = 0; g < G; ++g) {
      double total = 0;
      for (int64_t i = g * N * Q; i < (g + 1) * N * Q; ++i) total += weight_of[static_cast<size_t>(i)];
      totals.push_back(total);
    }
    process_group().add_up(totals);
    for (double& total : totals) total = std::max(total, 1e-12);
    return {cross_entropy(reshape(logits, {G * N * Q, K}),
                          label_queries(logits, matched, K - 1).reshape({G * N * Q}),
                          Tensor::from<float>({K}, weights, logits.device()), 0, layers_of(logits)),
            totals};
  }

  bool sees_object(const float*, int64_t columns, int64_t best) const override { return best != columns - 1; }

  std::vector<ClassCandidate> candidates(const float* logits, int64_t queries, int64_t columns,
                                         int64_t classes) const override {
    std::vector<ClassCandidate> out;
    for (int64_t q = 0; q < queries; ++q) {
      const float* row = logits + q * columns;
      double largest = *std::max_element(row, row + columns), sum = 0;
      for (int64_t k = 0; k < columns; ++k) sum += std::exp(row[k] - largest);
      int64_t best = std::max_element(row, row + classes) - row;
      out.push_back({static_cast<float>(std::exp(row[best] - largest) / sum), q, best});
    }
    return out;
  }
  double score_of(float score) const override { return score; }

 private:
  ClassLossOptions options_;
};

// DETR's weights.
SACCADE_REGISTER_CLASS_LOSS("softmax", SoftmaxLoss, "class_weight: 1 cost_class: 1");

}  // namespace
}  // namespace saccade
