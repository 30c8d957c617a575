// DETR's cross entropy: the last column means "no object", and each query yields its best class.
#include <algorithm>
#include <cmath>

#include "core/tensor/error.h"
#include "models/detection/class_loss.h"

namespace saccade {
namespace {

class SoftmaxLoss : public ClassLoss {
 public:
  explicit SoftmaxLoss(const ClassLossOptions& options) : options_(options) {}
  int64_t extra_columns() const override { return 1; }
  bool matches_probabilities() const override { return true; }

  Var sum(const Var& logits, const MatchedQueries& matched) const override {
    const int64_t rows = logits.dim(0) * logits.dim(1) * logits.dim(2), K = logits.dim(3);
    std::vector<float> weights(static_cast<size_t>(K), 1.f);
    weights.back() = no_object_weight();
    return cross_entropy(reshape(logits, {rows, K}), label_queries(logits, matched, K - 1).reshape({rows}),
                         Tensor::from<float>({K}, weights, logits.device()), 0, layers_of(logits));
  }
  // Returns the sum of the class weights over all queries.
  double divisor(const QueryCounts& step) const override {
    return std::max(step.matched + (step.queries - step.matched) * static_cast<double>(no_object_weight()),
                    1e-12);
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
  bool ranks_logits() const override { return false; }

 private:
  float no_object_weight() const { return static_cast<float>(options_.no_object_weight); }

  ClassLossOptions options_;
};

// The weights are DETR's.
SACCADE_REGISTER_CLASS_LOSS("softmax", SoftmaxLoss, "class_weight: 1 cost_class: 1");

}  // namespace
}  // namespace saccade
