// The largest elements of a row, one row per thread, by sorting whole numbers whose order is that of the
// scores.
#include <algorithm>
#include <bit>
#include <vector>

#include "core/kernels/top_k/top_k.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

// Keys rise as scores fall, then as indices rise; NaNs come last.
uint64_t sort_key(float score, int64_t index) {
  constexpr uint32_t kSign = 1U << 31;
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // the two zeros are equal
  const uint32_t falling = score != score ? ~0U : (bits & kSign) != 0 ? bits : ~(bits | kSign);
  return uint64_t{falling} << 32 | static_cast<uint64_t>(index);
}

void top_k_cpu(const Tensor& scores, Tensor& indices) {
  const int64_t columns = scores.dim(1), picks = indices.dim(1);
  const float* all = scores.data<float>();
  int64_t* out = indices.data<int64_t>();
  parallel_for(scores.dim(0), 1, [&](int64_t begin, int64_t end) {
    std::vector<uint64_t> keys(static_cast<size_t>(columns));
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = 0; i < columns; ++i)
        keys[static_cast<size_t>(i)] = sort_key(all[row * columns + i], i);
      const auto last = keys.begin() + picks;
      if (columns < 8 * picks) {
        std::nth_element(keys.begin(), last, keys.end());
        std::sort(keys.begin(), last);
      } else {  // few of them pass the smallest pick
        std::partial_sort(keys.begin(), last, keys.end());
      }
      for (int64_t i = 0; i < picks; ++i)
        out[row * picks + i] = static_cast<int64_t>(keys[static_cast<size_t>(i)] & 0xFFFFFFFF);
    }
  });
}

// The number of a column has half of a key.
bool columns_fit(const Tensor& scores, const Tensor&) { return scores.dim(1) <= int64_t{1} << 32; }

SACCADE_REGISTER_TUNED_KERNEL(top_k, Device::kCpu, &top_k_cpu, &columns_fit);

}  // namespace
}  // namespace saccade::kernels
