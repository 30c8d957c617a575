// The varifocal loss (Zhang et al. 2021): a sigmoid whose target is the overlap of the matched boxes.
#include <algorithm>

#include "models/detection/class_loss.h"

namespace saccade {
namespace {

float iou(const float* a, const float* b) {
  auto overlap = [](float c1, float s1, float c2, float s2) {
    return std::max(0.f, std::min(c1 + s1 / 2, c2 + s2 / 2) - std::max(c1 - s1 / 2, c2 - s2 / 2));
  };
  float both = overlap(a[0], a[2], b[0], b[2]) * overlap(a[1], a[3], b[1], b[3]);
  float either = a[2] * a[3] + b[2] * b[3] - both;
  return either > 0 ? both / either : 0.f;
}

class VarifocalLoss : public ClassLoss {
 public:
  explicit VarifocalLoss(const ClassLossOptions& options) : options_(options) {}
  bool reads_boxes() const override { return true; }
  Sum sum(const Var& logits, const float* boxes, const MatchedQueries& matched,
          double objects) const override {
    int64_t N = logits.dim(0), Q = logits.dim(1);
    std::vector<float> quality(static_cast<size_t>(N * Q));
    for (size_t i = 0; i < matched.rows.size(); ++i)
      quality[static_cast<size_t>(matched.rows[i])] =
          iou(boxes + matched.rows[i] * 4, matched.boxes.data() + i * 4);
    return {varifocal_loss(logits, to_device(label_queries(logits, matched, -1), logits),
                           Tensor::from<float>({N, Q}, quality, logits.device()), options_.focal_alpha,
                           options_.focal_gamma),
            objects};
  }

 private:
  ClassLossOptions options_;
};

SACCADE_REGISTER_CLASS_LOSS("varifocal", VarifocalLoss);

}  // namespace
}  // namespace saccade
