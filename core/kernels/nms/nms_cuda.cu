// Suppression on the GPU: a bit for every pair of boxes in the order of their scores, then one block per
// image, which goes through the words of bits: a warp decides the 32 boxes of a word, and all warps record
// which later boxes those suppress, each in a separate row of shared memory, so nothing is atomic.
#include "core/kernels/nms/nms.h"
#include "core/kernels/nms/overlap.h"
#include "core/kernels/top_k/top_k.h"
#include "core/runtime/cuda/block.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

constexpr int kRows = 128;                       // boxes that a block compares with those of a word
constexpr int kKeepWarps = 16;                   // per image
constexpr int kBoxesAWarp = kWarp / kKeepWarps;  // boxes of a word whose bits a warp records
constexpr int64_t kMaxWords = 768;               // whose bits fill 48 KiB for all warps

struct BoxesByScore {
  const float* boxes;
  const int64_t *groups, *order;  // order [N, K]: by descending score
  int64_t K, words;
  // Returns the index of the box at a place of an image.
  __device__ __forceinline__ int64_t at(int64_t n, int64_t place) const {
    return n * K + order[n * K + place];
  }
};

// bits [N, K, words]: which of the word's places the box at an earlier place suppresses if it is kept. Words
// before the place are not written. Grid: (words, runs of kRows places, images).
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    suppressed_bits(BoxesByScore in, float threshold, uint32_t* bits) {
  SACCADE_SHARED(OverlapBox, box, kWarp);
  SACCADE_SHARED(int64_t, group, kWarp);
  const int64_t word = blockIdx.x, n = blockIdx.z, begin = word * kWarp;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kThreads, a = first + threadIdx.x;
  if (begin + kWarp <= first) return;  // true for the whole block
  if (threadIdx.x < kWarp && begin + threadIdx.x < in.K) {
    const int64_t own = in.at(n, begin + threadIdx.x);
    const auto p = load_pack<4>(in.boxes + 4 * own);
    box[threadIdx.x] = {p.x[0], p.x[1], p.x[2], p.x[3]};
    group[threadIdx.x] = in.groups[own];
  }
  __syncthreads();
  if (a >= in.K || a >= begin + kWarp) return;
  const int64_t own = in.at(n, a), mine_group = in.groups[own];
  const auto p = load_pack<4>(in.boxes + 4 * own);
  const OverlapBox mine{p.x[0], p.x[1], p.x[2], p.x[3]};
  const float area = mine.area();
  const auto count = static_cast<int>(in.K - begin < kWarp ? in.K - begin : kWarp);
  uint32_t found = 0;
  for (int b = a >= begin ? static_cast<int>(a - begin) + 1 : 0; b < count; ++b)
    if (group[b] == mine_group && overlaps(mine, area, box[b], box[b].area(), threshold)) found |= 1u << b;
  bits[(n * in.K + a) * in.words + word] = found;
}

// Grid: images.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) keep_boxes(BoxesByScore in, const uint32_t* bits, bool* keep) {
  SACCADE_SHARED(uint32_t, kept_of_word, 1);
  SACCADE_DYNAMIC_SHARED(uint32_t, gone);  // [kKeepWarps, words]
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t n = blockIdx.x;
  bits += n * in.K * in.words;
  uint32_t* mine = gone + warp * in.words;
  for (int64_t w = lane; w < in.words; w += kWarp) mine[w] = 0;
  __syncthreads();
  for (int64_t word = 0; word < in.words; ++word) {
    const int64_t begin = word * kWarp;
    if (warp == 0) {
      const int64_t place = begin + lane;
      const bool is_box = place < in.K;
      const int64_t own = is_box ? in.at(n, place) : 0;
      const uint32_t others = is_box ? bits[place * in.words + word] : 0;
      uint32_t left = __ballot_sync(kAllLanes, is_box && in.groups[own] >= 0), kept = 0;
      for (int w = 0; w < kKeepWarps; ++w) left &= ~gone[w * in.words + word];
      while (left) {
        const int best = __ffs(static_cast<int>(left)) - 1;
        kept |= 1u << best;
        left &= ~(__shfl_sync(kAllLanes, others, best) | 1u << best);
      }
      if (is_box) keep[own] = (kept >> lane & 1) != 0;
      if (lane == 0) kept_of_word[0] = kept;
    }
    __syncthreads();
    const uint32_t kept = kept_of_word[0] >> (warp * kBoxesAWarp) & ((1u << kBoxesAWarp) - 1);
    if (kept != 0) {
      const uint32_t* rows = bits + (begin + warp * kBoxesAWarp) * in.words;
#pragma unroll 4
      for (int64_t w = word + 1 + lane; w < in.words; w += kWarp) {
        uint32_t found = 0;
#pragma unroll
        for (int b = 0; b < kBoxesAWarp; ++b)
          if (kept >> b & 1) found |= rows[b * in.words + w];
        mine[w] |= found;
      }
    }
    __syncthreads();
  }
}

void nms_cuda(const Tensor& boxes, const Tensor& scores, const Tensor& groups, double threshold,
              Tensor& keep) {
  const int64_t N = scores.dim(0), K = scores.dim(1), words = ceil_div(K, kWarp);
  Tensor order = Tensor::empty({N, K}, DType::kI64, scores.device());
  top_k(scores, order);
  Tensor bits = Tensor::empty({N, K, words}, DType::kI32, scores.device());
  auto* pairs = static_cast<uint32_t*>(bits.raw());
  const BoxesByScore in{boxes.data<float>(), groups.data<int64_t>(), order.data<int64_t>(), K, words};
  launch("suppressed_bits", &suppressed_bits<kRows>, {{words, ceil_div(K, kRows), N}, kRows}, in,
         float_threshold(threshold), pairs);
  launch("keep_boxes", &keep_boxes<kKeepWarps * kWarp>,
         {N, kKeepWarps * kWarp, static_cast<size_t>(words) * kKeepWarps * sizeof(uint32_t)}, in, pairs,
         keep.data<bool>());
}

bool nms_fits(const Tensor& boxes, const Tensor& scores, const Tensor&, const double&, const Tensor&) {
  constexpr int64_t kMaxImages = 65535;
  return scores.numel() > 0 && ceil_div(scores.dim(1), kWarp) <= kMaxWords && scores.dim(0) <= kMaxImages &&
         reinterpret_cast<uintptr_t>(boxes.raw()) % sizeof(Pack<float, 4>) == 0;
}

SACCADE_REGISTER_TUNED_KERNEL(nms, Device::kCuda, &nms_cuda, &nms_fits);

}  // namespace
}  // namespace saccade::kernels
