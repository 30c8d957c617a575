// Top-1 and top-5 accuracy and the mean cross entropy, without label smoothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/evaluation/evaluators.h"

namespace saccade {
namespace {

class TopK final : public ClassificationScore {
 public:
  // A hit among the best k when fewer than k classes have a larger logit, or an equal one and a smaller index.
  void add(std::span<const float> logits, int64_t label) override {
    const auto own = static_cast<size_t>(label);
    const double largest = *std::max_element(logits.begin(), logits.end());
    int64_t better = 0;
    double sum = 0;
    for (size_t k = 0; k < logits.size(); ++k) {
      better += logits[k] > logits[own] || (logits[k] == logits[own] && k < own);
      sum += std::exp(logits[k] - largest);
    }
    top1_ += better < 1;
    top5_ += better < 5;
    loss_ += largest + std::log(sum) - logits[own];
    ++images_;
  }

  Evaluation result() const override {
    const auto n = static_cast<double>(images_);
    const double top1 = static_cast<double>(top1_) / n, top5 = static_cast<double>(top5_) / n,
                 loss = loss_ / n;
    return {.metrics = {{"top1", top1}, {"top5", top5}, {"loss", loss}},
            .table = fmt::format("top-1 accuracy  {:.4f}  ({} of {} images)\n"
                                 "top-5 accuracy  {:.4f}  ({} of {} images)\n"
                                 "cross entropy   {:.4f}\n",
                                 top1, top1_, images_, top5, top5_, images_, loss),
            .json = fmt::format("{{\"top1\": {}, \"top5\": {}, \"loss\": {}, \"images\": {}}}\n", top1, top5,
                                loss, images_),
            .notes = {}};
  }

 private:
  int64_t images_ = 0, top1_ = 0, top5_ = 0;
  double loss_ = 0;
};

[[maybe_unused]] const bool top_k_registered = classification_evaluators().add(
    {.name = "top_k",
     .summary = "top-1 and top-5 accuracy and the mean cross entropy",
     .primary = {"top1", "top5", "loss"},
     .start = []() -> std::unique_ptr<ClassificationScore> { return std::make_unique<TopK>(); },
     .file = __FILE__});

}  // namespace
}  // namespace saccade
