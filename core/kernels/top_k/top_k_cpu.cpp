// The largest elements of a row by a partial sort, one row per thread.
#include <algorithm>
#include <numeric>
#include <vector>

#include "core/kernels/top_k/top_k.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

void top_k_cpu(const Tensor& scores, Tensor& indices) {
  const int64_t columns = scores.dim(1), picks = indices.dim(1);
  const float* all = scores.data<float>();
  int64_t* out = indices.data<int64_t>();
  parallel_for(scores.dim(0), 1, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> order(static_cast<size_t>(columns));
    for (int64_t row = begin; row < end; ++row) {
      const float* s = all + row * columns;
      auto before = [s](int64_t a, int64_t b) {
        const bool a_number = s[a] == s[a], b_number = s[b] == s[b];
        if (!a_number || !b_number) return a_number != b_number ? a_number : a < b;
        return s[a] > s[b] || (s[a] == s[b] && a < b);
      };
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + picks, order.end(), before);
      std::copy_n(order.begin(), picks, out + row * picks);
    }
  });
}

SACCADE_REGISTER_TUNED_KERNEL(top_k, Device::kCpu, &top_k_cpu);

}  // namespace
}  // namespace saccade::kernels
