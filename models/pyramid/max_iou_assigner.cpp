#include "models/pyramid/max_iou_assigner.h"

#include <algorithm>
#include <array>

#include "core/tensor/error.h"
#include "core/tensor/integers.h"

namespace saccade {
namespace {

// Candidates are processed in blocks of neighbours; an object touches few blocks.
constexpr int64_t kNeighbours = 64;

bool touch(const float* a, const float* b) {
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}

// Computes the IoU of boxes with one object. Candidates tie by the hundreds (all anchors of a shape that an
// object lies in), and rounding decides which of them are its best: every product is rounded, as in PyTorch,
// and the function is not inlined, so that the second pass finds the same values as the first.
[[gnu::noinline, gnu::optimize("fp-contract=off")]] void ious(const float* boxes, int64_t count,
                                                              const float* object, float* out) {
  const float area = (object[2] - object[0]) * (object[3] - object[1]);
  for (int64_t i = 0; i < count; ++i) {
    const float* b = boxes + 4 * i;
    const float width = std::min(b[2], object[2]) - std::max(b[0], object[0]);
    const float height = std::min(b[3], object[3]) - std::max(b[1], object[1]);
    const float common = std::max(width, 0.0f) * std::max(height, 0.0f);
    const float all = (b[2] - b[0]) * (b[3] - b[1]) + area - common;
    out[i] = common > 0 ? common / all : 0;
  }
}

class Blocks {
 public:
  explicit Blocks(std::span<const float> boxes)
      : boxes_(boxes.data()), count_(std::ssize(boxes) / 4), bounds_(ceil_div(count_, kNeighbours)) {
    for (int64_t i = 0; i < count_; ++i) {
      const float* b = boxes_ + 4 * i;
      std::array<float, 4>& all = bounds_[static_cast<size_t>(i / kNeighbours)];
      if (i % kNeighbours == 0) all = {b[0], b[1], b[2], b[3]};
      for (size_t k = 0; k < 2; ++k) {
        all[k] = std::min(all[k], b[k]);
        all[k + 2] = std::max(all[k + 2], b[k + 2]);
      }
    }
  }
  int64_t count() const { return count_; }
  // Calls visit(candidate, IoU) for all that may overlap the object.
  template <class F>
  void look(const float* object, const F& visit) const {
    std::array<float, kNeighbours> found;
    for (size_t block = 0; block < bounds_.size(); ++block) {
      if (!touch(bounds_[block].data(), object)) continue;
      const int64_t first = static_cast<int64_t>(block) * kNeighbours,
                    size = std::min(kNeighbours, count_ - first);
      ious(boxes_ + 4 * first, size, object, found.data());
      for (int64_t i = 0; i < size; ++i) visit(static_cast<size_t>(first + i), found[static_cast<size_t>(i)]);
    }
  }

 private:
  const float* boxes_;
  int64_t count_;
  std::vector<std::array<float, 4>> bounds_;
};

}  // namespace

std::vector<int32_t> assign_max_iou(std::span<const float> candidates, std::span<const float> objects,
                                    const MaxIouOptions& options) {
  SACCADE_CHECK(candidates.size() % 4 == 0 && objects.size() % 4 == 0,
                "[assign_max_iou] {} and {} numbers, expected four per box", candidates.size(),
                objects.size());
  const Blocks blocks(candidates);
  const auto count = static_cast<size_t>(blocks.count()), K = objects.size() / 4;
  std::vector<float> best(count, 0), best_of_object(K, 0);
  std::vector<int32_t> out(count, kBackground);
  for (size_t k = 0; k < K; ++k)
    blocks.look(objects.data() + 4 * k, [&](size_t i, float iou) {
      best_of_object[k] = std::max(best_of_object[k], iou);
      if (iou <= best[i]) return;
      best[i] = iou;
      out[i] = static_cast<int32_t>(k);
    });
  const auto positive = static_cast<float>(options.positive), negative = static_cast<float>(options.negative);
  for (size_t i = 0; i < count; ++i)
    if (out[i] == kBackground || best[i] < positive) out[i] = best[i] < negative ? kBackground : kIgnored;
  if (!options.low_quality) return out;
  for (size_t k = 0; k < K; ++k) {
    const float wanted = best_of_object[k];
    if (wanted == 0 || wanted < static_cast<float>(options.least_quality)) continue;
    blocks.look(objects.data() + 4 * k, [&](size_t i, float iou) {
      if (iou == wanted) out[i] = static_cast<int32_t>(k);
    });
  }
  return out;
}

}  // namespace saccade
