#include "models/detection/class_loss.h"

#include <cmath>

#include "core/kernels/matched_iou/matched_iou.h"

namespace saccade {

bool ClassLoss::sees_object(const float* logits, int64_t, int64_t best) const { return logits[best] > 0; }

// Returns every pair of a query and a class, scored by its logit.
std::vector<ClassCandidate> ClassLoss::candidates(const float* logits, int64_t queries, int64_t columns,
                                                  int64_t classes) const {
  std::vector<ClassCandidate> out;
  out.reserve(static_cast<size_t>(queries * classes));
  for (int64_t q = 0; q < queries; ++q)
    for (int64_t k = 0; k < classes; ++k) out.push_back({logits[q * columns + k], q, k});
  return out;
}

double ClassLoss::score_of(float score) const { return 1 / (1 + std::exp(-static_cast<double>(score))); }

Tensor matched_quality(const Var& logits, const MatchedQueries& matched) {
  Tensor quality = Tensor::zeros({logits.dim(0), logits.dim(1), logits.dim(2)}, DType::kF32, logits.device());
  kernels::matched_iou(matched.boxes.value().to(DType::kF32).contiguous(), matched.truth, matched.indices,
                       quality);
  return quality;
}

Tensor label_queries(const Var& logits, const MatchedQueries& matched, int64_t background) {
  Tensor labels = Tensor::full({logits.dim(0), logits.dim(1), logits.dim(2)}, static_cast<double>(background),
                               DType::kI64, logits.device());
  kernels::put_labels(matched.classes, matched.indices, labels);
  return labels;
}

}  // namespace saccade
