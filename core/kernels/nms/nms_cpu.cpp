// Suppression on the CPU: the boxes of a group are stored contiguously by descending score, so that a kept
// one is compared with the rest of them as vectors.
#include <algorithm>
#include <vector>

#include "core/kernels/nms/nms.h"
#include "core/kernels/nms/overlap.h"
#include "core/kernels/top_k/top_k.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

// The boxes of an image, group after group.
struct SortedBoxes {
  std::vector<int64_t> index;  // in the image
  std::vector<float> x1, y1, x2, y2, area;
  std::vector<int32_t> gone;

  void suppress(size_t a, size_t end, float threshold) {
    const OverlapBox mine{x1[a], y1[a], x2[a], y2[a]};
    const float own = area[a];
#pragma GCC ivdep
    for (size_t b = a + 1; b < end; ++b)
      gone[b] |= overlaps(mine, own, {x1[b], y1[b], x2[b], y2[b]}, area[b], threshold);
  }
};

void nms_of_image(const float* boxes, const int64_t* groups, const int64_t* order, int64_t K, float threshold,
                  bool* keep) {
  SortedBoxes s;
  s.index.reserve(static_cast<size_t>(K));
  for (int64_t place = 0; place < K; ++place)
    if (groups[order[place]] >= 0) s.index.push_back(order[place]);
  std::ranges::stable_sort(s.index, {}, [&](int64_t i) { return groups[i]; });
  const size_t count = s.index.size();
  for (auto* column : {&s.x1, &s.y1, &s.x2, &s.y2, &s.area}) column->resize(count);
  s.gone.assign(count, 0);
  for (size_t i = 0; i < count; ++i) {
    const float* b = boxes + 4 * s.index[i];
    s.x1[i] = b[0], s.y1[i] = b[1], s.x2[i] = b[2], s.y2[i] = b[3];
    s.area[i] = OverlapBox{b[0], b[1], b[2], b[3]}.area();
  }
  std::fill_n(keep, K, false);
  for (size_t begin = 0; begin < count;) {
    size_t end = begin;
    while (end < count && groups[s.index[end]] == groups[s.index[begin]]) ++end;
    for (size_t a = begin; a < end; ++a) {
      if (s.gone[a]) continue;
      keep[s.index[a]] = true;
      s.suppress(a, end, threshold);
    }
    begin = end;
  }
}

void nms_cpu(const Tensor& boxes, const Tensor& scores, const Tensor& groups, double threshold,
             Tensor& keep) {
  const int64_t N = scores.dim(0), K = scores.dim(1);
  if (scores.numel() == 0) return;
  Tensor order = Tensor::empty({N, K}, DType::kI64);
  top_k(scores, order);
  parallel_for(N, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      nms_of_image(boxes.data<float>() + 4 * n * K, groups.data<int64_t>() + n * K,
                   order.data<int64_t>() + n * K, K, float_threshold(threshold), keep.data<bool>() + n * K);
  });
}

SACCADE_REGISTER_TUNED_KERNEL(nms, Device::kCpu, &nms_cpu);

}  // namespace
}  // namespace saccade::kernels
