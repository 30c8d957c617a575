// The largest elements of a row by one block: a radix select finds the last of them, digit by digit from the
// top; then all from that rank on are collected and sorted. Ranks are unique, so the order in which threads
// find them does not matter. Blocks divide a long row into parts, and the parts' results form a row again.
// Parts are in order and each one's picks are sorted, so equal scores stay in order.
#include <algorithm>
#include <bit>

#include "core/kernels/top_k/top_k.h"
#include "core/runtime/cuda/block.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

constexpr int kThreads = 512;
constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
constexpr int64_t kMaxPicks = 8192;  // whose ranks fill 64 KiB of shared memory
constexpr int64_t kPart = 32768;     // columns of a row per block

// An element's rank: greater ranks come earlier. The upper bits are the score, ordered as an unsigned
// integer; the lower bits are the index counted from the row's end.
struct Ranks {
  const float* scores;
  int64_t columns;
  int index_bits;
  __device__ uint64_t operator[](int64_t i) const {
    const float s = scores[i];
    const uint32_t bits = std::bit_cast<uint32_t>(s == 0 ? 0.0f : s);
    const uint32_t key = s != s ? 0 : bits >> 31 ? ~bits : bits | 0x80000000u;
    return static_cast<uint64_t>(key) << index_bits | static_cast<uint64_t>(columns - 1 - i);
  }
  __device__ int64_t index_of(uint64_t rank) const {
    return columns - 1 - static_cast<int64_t>(rank & ((uint64_t{1} << index_bits) - 1));
  }
};

// Returns the least of the `picks` greatest ranks, or a number between it and the next lower rank.
__device__ uint64_t least_of_top(const Ranks& ranks, int picks, int* counts, int* found) {
  const auto thread = static_cast<int>(threadIdx.x);
  uint64_t least = 0;
  for (int shift = ranks.index_bits + 32 - kDigitBits;; shift -= kDigitBits) {
    const uint64_t known = least >> shift >> kDigitBits;
    for (int d = thread; d < kDigits; d += kThreads) counts[d] = 0;
    __syncthreads();
    for (int64_t i = thread; i < ranks.columns; i += kThreads) {
      const uint64_t rank = ranks[i];
      if (rank >> shift >> kDigitBits == known) atomicAdd(&counts[rank >> shift & (kDigits - 1)], 1);
    }
    __syncthreads();
    // Sets counts[d] to the number of ranks with this digit or a greater one.
    for (int step = 1; step < kDigits; step *= 2) {
      const int more = thread + step < kDigits ? counts[thread + step] : 0;
      __syncthreads();
      if (thread < kDigits) counts[thread] += more;
      __syncthreads();
    }
    if (thread < kDigits) {
      const int above = thread + 1 < kDigits ? counts[thread + 1] : 0;
      if (above < picks && counts[thread] >= picks) {
        found[0] = thread;
        found[1] = above;
        found[2] = counts[thread];
      }
    }
    __syncthreads();
    least |= static_cast<uint64_t>(found[0]) << shift;
    const bool exact = found[2] == picks;
    picks -= found[1];
    __syncthreads();
    if (exact || shift == 0) return least;
  }
}

// Selects the best of a row or of its parts of `part` columns: their indices, taken from `names` if given,
// and their scores if wanted. A part with fewer than `picks` elements ends in NaNs. places: the smallest
// power of two that is at least `picks`. Grid: (rows, parts).
__global__ void __launch_bounds__(kThreads)
    select_top(const float* scores, const int64_t* names, int64_t columns, int64_t part, int index_bits,
               int picks, int places, int64_t* indices, float* best) {
  SACCADE_SHARED(int, counts, kDigits);
  SACCADE_SHARED(int, found, 4);
  SACCADE_DYNAMIC_SHARED(uint64_t, chosen);
  const auto thread = static_cast<int>(threadIdx.x);
  const int64_t begin = blockIdx.y * part, first = blockIdx.x * columns + begin;
  const int64_t here = columns - begin < part ? columns - begin : part;
  const int all = picks;
  if (picks > here) picks = static_cast<int>(here);
  const Ranks ranks{scores + first, here, index_bits};
  const uint64_t least = least_of_top(ranks, picks, counts, found);

  for (int k = thread; k < places; k += kThreads) chosen[k] = 0;
  if (thread == 0) found[0] = 0;
  __syncthreads();
  for (int64_t i = thread; i < here; i += kThreads) {
    const uint64_t rank = ranks[i];
    if (rank >= least) chosen[atomicAdd(&found[0], 1)] = rank;
  }
  __syncthreads();
  // Bitonic sort, greatest first.
  for (int size = 2; size <= places; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      for (int t = thread; t < places / 2; t += kThreads) {
        const int i = 2 * t - (t & (stride - 1)), j = i + stride;
        const uint64_t a = chosen[i], b = chosen[j];
        if ((a < b) == ((i & size) == 0)) {
          chosen[i] = b;
          chosen[j] = a;
        }
      }
      __syncthreads();
    }
  }
  const int64_t out = (static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y) * all;
  for (int k = thread; k < all; k += kThreads) {
    const int64_t i = k < picks ? ranks.index_of(chosen[k]) : 0;
    indices[out + k] = names ? names[first + i] : begin + i;
    if (best) best[out + k] = k < picks ? scores[first + i] : NAN;
  }
}

// Selects the best of each part of `part` columns.
void select_of_parts(const Tensor& scores, const Tensor& names, int64_t part, Tensor& indices, Tensor* best,
                     int64_t picks) {
  const int64_t columns = scores.dim(1), parts = ceil_div(columns, part);
  const auto bits = std::max(static_cast<int>(std::bit_width(static_cast<uint64_t>(part - 1))), 1);
  const auto places = std::bit_ceil(static_cast<uint64_t>(picks));
  launch("select_top", &select_top, {{scores.dim(0), parts}, kThreads, places * sizeof(uint64_t)},
         scores.data<float>(), names.defined() ? names.data<int64_t>() : nullptr, columns, part,
         static_cast<int>(round_up(bits, kDigitBits)), static_cast<int>(picks), static_cast<int>(places),
         indices.data<int64_t>(), best ? best->data<float>() : nullptr);
}

void top_k_cuda(const Tensor& scores, Tensor& indices) {
  const int64_t rows = scores.dim(0), picks = indices.dim(1);
  Tensor left = scores, names;
  // Parts pay if they leave at most half of a row.
  for (int64_t parts; parts = ceil_div(left.dim(1), kPart), 2 * parts * picks <= left.dim(1) && parts > 1;) {
    Tensor best = Tensor::empty({rows, parts * picks}, DType::kF32, scores.device()),
           named = Tensor::empty(best.shape(), DType::kI64, scores.device());
    select_of_parts(left, names, kPart, named, &best, picks);
    left = best, names = named;
  }
  select_of_parts(left, names, left.dim(1), indices, nullptr, picks);
}

bool few_enough(const Tensor& scores, const Tensor& indices) {
  return indices.dim(1) <= kMaxPicks && indices.numel() > 0 && scores.dim(1) <= INT32_MAX &&
         scores.dim(0) <= INT32_MAX;
}

// One warp per row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    row_maxima(const T* x, acc_t<T>* y, int64_t rows, int64_t columns) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kWarp;
  if (row >= rows) return;
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  const T* p = x + row * columns;
  acc_t<T> top(p[lane < columns ? lane : 0]);
  for (int64_t i = lane + kWarp; i < columns; i += kWarp) top = math::max(top, acc_t<T>(p[i]));
  for (int step = kWarp / 2; step > 0; step /= 2)
    top = math::max(top, __shfl_xor_sync(kAllLanes, top, step, kWarp));
  if (lane == 0) y[row] = top;
}

void row_max_cuda(const Tensor& x, Tensor& y) {
  dispatch_float(x.dtype(), "row_max", [&]<class T>() {
    launch("row_maxima", &row_maxima<T>, {ceil_div(y.numel(), kThreads / kWarp), kThreads}, x.data<T>(),
           y.data<acc_t<T>>(), y.numel(), x.dim(-1));
  });
}

SACCADE_REGISTER_TUNED_KERNEL(top_k, Device::kCuda, &top_k_cuda, &few_enough);
SACCADE_REGISTER_TUNED_KERNEL(row_max, Device::kCuda, &row_max_cuda, &none_empty<Tensor, Tensor>);

}  // namespace
}  // namespace saccade::kernels
