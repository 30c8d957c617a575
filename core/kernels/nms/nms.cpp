// Single-source suppression: a bit for every pair of boxes in the order of their scores, then one pass over
// the bits of an image.
#include "core/kernels/nms/nms.h"

#include "core/kernels/nms/overlap.h"
#include "core/kernels/top_k/top_k.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kBits = 64;

struct NmsInputs {
  const float* boxes;
  const int64_t *groups, *order;  // order [N, K]: by descending score
  int64_t K, words;
  float threshold;
};

// i = (n, a, word): which of the word's places b > a the box at place a suppresses if it is kept
struct SuppressedBits {
  NmsInputs in;
  uint64_t* bits;
  SACCADE_HD void operator()(int64_t i) const {
    const int64_t word = i % in.words, a = i / in.words % in.K, n = i / in.words / in.K;
    const int64_t* order = in.order + n * in.K;
    const int64_t begin = word * kBits > a ? word * kBits : a + 1;
    const int64_t end = (word + 1) * kBits < in.K ? (word + 1) * kBits : in.K;
    const int64_t own = n * in.K + order[a], group = in.groups[own];
    const auto box = [&](int64_t at) {
      const float* p = in.boxes + 4 * at;
      return OverlapBox{p[0], p[1], p[2], p[3]};
    };
    const OverlapBox mine = box(own);
    const float area = mine.area();
    uint64_t found = 0;
    for (int64_t b = begin; b < end; ++b) {
      const int64_t other = n * in.K + order[b];
      if (in.groups[other] != group) continue;
      const OverlapBox theirs = box(other);
      if (overlaps(mine, area, theirs, theirs.area(), in.threshold)) found |= uint64_t{1} << (b % kBits);
    }
    bits[i] = found;
  }
};

struct KeepBoxes {
  NmsInputs in;
  const uint64_t* bits;
  uint64_t* gone;  // [N, words], initially zero
  bool* keep;
  SACCADE_HD void operator()(int64_t n) const {
    uint64_t* suppressed = gone + n * in.words;
    for (int64_t a = 0; a < in.K; ++a) {
      const int64_t own = n * in.K + in.order[n * in.K + a];
      const bool kept = in.groups[own] >= 0 && (suppressed[a / kBits] >> (a % kBits) & 1) == 0;
      keep[own] = kept;
      if (!kept) continue;
      const uint64_t* mine = bits + (n * in.K + a) * in.words;
      for (int64_t w = a / kBits; w < in.words; ++w) suppressed[w] |= mine[w];
    }
  }
};

void nms_generic(const Tensor& boxes, const Tensor& scores, const Tensor& groups, double threshold,
                 Tensor& keep) {
  const int64_t N = scores.dim(0), K = scores.dim(1), words = ceil_div(K, kBits);
  if (scores.numel() == 0) return;
  Tensor order = Tensor::empty({N, K}, DType::kI64, scores.device());
  top_k(scores, order);
  Tensor bits = Tensor::empty({N, K, words}, DType::kI64, scores.device());
  Tensor gone = Tensor::zeros({N, words}, DType::kI64, scores.device());
  const NmsInputs in{boxes.data<float>(),       groups.data<int64_t>(), order.data<int64_t>(), K, words,
                     float_threshold(threshold)};
  auto* pairs = static_cast<uint64_t*>(bits.raw());
  for_each(N * K * words, SuppressedBits{in, pairs}, kBits * 8);
  for_each(N, KeepBoxes{in, pairs, static_cast<uint64_t*>(gone.raw()), keep.data<bool>()}, K * words);
}

SACCADE_REGISTER_KERNEL(nms, &nms_generic);

}  // namespace
}  // namespace saccade::kernels
