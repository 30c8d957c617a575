// Top-1 and top-5 accuracy and the mean cross entropy, without label smoothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/evaluation/evaluators.h"

namespace saccade {
namespace {

class TopK final : public Evaluator {
 public:
  void add(Predicted prediction) override {
    const std::span<const float> logits = prediction.logits;
    const auto own = static_cast<size_t>(prediction.label);
    const double largest = *std::max_element(logits.begin(), logits.end());
    int64_t better = 0;
    double sum = 0;
    for (size_t k = 0; k < logits.size(); ++k) {
      better += logits[k] > logits[own] || (logits[k] == logits[own] && k < own);
      sum += std::exp(logits[k] - largest);
    }
    images_.push_back({better, largest + std::log(sum) - logits[own]});
  }
  std::string state() const override {
    return {reinterpret_cast<const char*>(images_.data()), images_.size() * sizeof(OfImage)};
  }
  void merge(std::string_view state) override {
    const size_t before = images_.size();
    images_.resize(before + state.size() / sizeof(OfImage));
    if (!state.empty()) std::memcpy(images_.data() + before, state.data(), state.size());
  }

  Evaluation result() const override {
    const size_t images = images_.size();
    const auto n = static_cast<double>(images);
    // The class is among the best k if fewer than k classes are better.
    const auto hits = [&](int64_t k) {
      return std::ranges::count_if(images_, [k](const OfImage& i) { return i.better < k; });
    };
    double losses = 0;
    for (const OfImage& i : images_) losses += i.loss;
    const int64_t hits_1 = hits(1), hits_5 = hits(5);
    const double top1 = static_cast<double>(hits_1) / n, top5 = static_cast<double>(hits_5) / n,
                 loss = losses / n;
    return {.metrics = {{"top1", top1}, {"top5", top5}, {"loss", loss}},
            .table = fmt::format("top-1 accuracy  {:.4f}  ({} of {} images)\n"
                                 "top-5 accuracy  {:.4f}  ({} of {} images)\n"
                                 "cross entropy   {:.4f}\n",
                                 top1, hits_1, images, top5, hits_5, images, loss),
            .json = fmt::format("{{\"top1\": {}, \"top5\": {}, \"loss\": {}, \"images\": {}}}\n", top1, top5,
                                loss, images),
            .notes = {}};
  }

 private:
  // It has no padding bytes.
  struct OfImage {
    int64_t better;  // classes with a larger logit than its own, or an equal one and a smaller index
    double loss;
  };
  std::vector<OfImage> images_;  // in order, since the losses are added in this order
};

[[maybe_unused]] const bool top_k_registered =
    evaluators("classification")
        .add({.name = "top_k",
              .summary = "top-1 and top-5 accuracy and the mean cross entropy",
              .primary = {"top1", "top5", "loss"},
              .start = [](const EvaluatorSpec::Options&) -> std::unique_ptr<Evaluator> {
                return std::make_unique<TopK>();
              },
              .is_usual = true});

}  // namespace
}  // namespace saccade
