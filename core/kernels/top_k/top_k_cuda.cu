// The largest elements of a row by one block: a radix select finds the last of them, digit by digit from the
// top, then those from it on are collected and sorted. Ranks are unique,
// so the order in which threads find them does not matter.
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
constexpr int64_t kMaxPicks = 4096;  // whose ranks fill 32 KiB of shared memory

// An element's rank: the greater, the earlier it comes. The score, in the order of unsigned integers, above
// the index counted from the row's end.
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

// The least rank of the `picks` greatest, or a number below it and above all others.
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
    // counts[d] becomes the number of ranks with this digit or a greater one.
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

// places: the power of two from `picks` on
__global__ void __launch_bounds__(kThreads) select_top(const float* scores, int64_t* indices, int64_t columns,
                                                       int index_bits, int picks, int places) {
  SACCADE_SHARED(int, counts, kDigits);
  SACCADE_SHARED(int, found, 4);
  SACCADE_DYNAMIC_SHARED(uint64_t, chosen);
  const auto thread = static_cast<int>(threadIdx.x);
  const Ranks ranks{scores + blockIdx.x * columns, columns, index_bits};
  const uint64_t least = least_of_top(ranks, picks, counts, found);

  for (int k = thread; k < places; k += kThreads) chosen[k] = 0;
  if (thread == 0) found[0] = 0;
  __syncthreads();
  for (int64_t i = thread; i < columns; i += kThreads) {
    const uint64_t rank = ranks[i];
    if (rank >= least) chosen[atomicAdd(&found[0], 1)] = rank;
  }
  __syncthreads();
  // Bitonic sort, the greatest first.
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
  for (int k = thread; k < picks; k += kThreads)
    indices[static_cast<int64_t>(blockIdx.x) * picks + k] = ranks.index_of(chosen[k]);
}

void top_k_cuda(const Tensor& scores, Tensor& indices) {
  const int64_t columns = scores.dim(1), picks = indices.dim(1);
  const auto bits = std::max(static_cast<int>(std::bit_width(static_cast<uint64_t>(columns - 1))), 1);
  const auto places = std::bit_ceil(static_cast<uint64_t>(picks));
  launch("select_top", &select_top, dim3(static_cast<unsigned>(scores.dim(0))), dim3(kThreads),
         places * sizeof(uint64_t), scores.data<float>(), indices.data<int64_t>(), columns,
         static_cast<int>(round_up(bits, kDigitBits)), static_cast<int>(picks), static_cast<int>(places));
}

bool few_enough(const Tensor& scores, const Tensor& indices) {
  return indices.dim(1) <= kMaxPicks && indices.numel() > 0 && scores.dim(1) <= INT32_MAX;
}

// A warp a row.
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
    launch("row_maxima", &row_maxima<T>, grid_of(y.numel(), kThreads / kWarp), dim3(kThreads), 0, x.data<T>(),
           y.data<acc_t<T>>(), y.numel(), x.dim(-1));
  });
}

SACCADE_REGISTER_TUNED_KERNEL(top_k, Device::kCuda, &top_k_cuda, &few_enough);
SACCADE_REGISTER_TUNED_KERNEL(row_max, Device::kCuda, &row_max_cuda, &none_empty<Tensor, Tensor>);

}  // namespace
}  // namespace saccade::kernels
