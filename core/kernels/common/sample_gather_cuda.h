// Forward and the gradients of points: the kernels that read the maps. kLanes threads process a row (a query
// and head), kPack neighbouring channels each, so a corner of a head of 32 is one line of 128 bytes in f32.
// Positions and weights are computed once per row, with the points distributed over its lanes, and shared
// through shared memory; corners outside the map are not read.
#pragma once

#include "core/kernels/common/samples_cuda.h"
#include "core/runtime/kernel.h"

namespace saccade::cuda {

constexpr int kGatherThreads = 128;
constexpr int kGatherWarps = kGatherThreads / kWarp;
constexpr int kSlabPitch = kSlab + 1;  // of a row in shared memory: puts rows in different banks

// Loads the four corners; those outside are zeros.
template <int kPack, class T>
__device__ __forceinline__ void load_corners(const T* map, const SampleCorners& c, float (&v)[4][kPack]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int d = 0; d < kPack; ++d) v[i][d] = 0;
    if (c.offset[i] >= 0) load_floats<kPack>(map + c.offset[i], v[i]);
  }
}

// Grid: (groups of queries, heads of images, blocks of kLanes * kPack channels).
template <class T, int kPack, int kLanes, class Source>
__global__ void __launch_bounds__(kGatherThreads, 5)
    gather_samples(Source source, SampleShape s, QueryOrder order, const T* __restrict__ value, T* y) {
  constexpr int kRows = kWarp / kLanes;  // rows per warp
  SACCADE_SHARED(SampleCorners, corners, kGatherWarps * kRows * kSlabPitch);
  int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  int sub = lane % kLanes, n = static_cast<int>(blockIdx.y) / s.M, m = static_cast<int>(blockIdx.y) % s.M;
  SampleCorners* mine = corners + (warp * kRows + lane / kLanes) * kSlabPitch;
  int d0 = (static_cast<int>(blockIdx.z) * kLanes + sub) * kPack;
  const T* map = value + s.map(n, m) + d0;
  auto group = order.group(s.levels, static_cast<int>(blockIdx.x));
  for (int first = warp * kRows; first < order.per_group; first += kGatherWarps * kRows) {
    int q = group.query(first + lane / kLanes);
    SampleRow row = s.row(n, q < 0 ? 0 : q, m);
    auto weights = source.template weights<kLanes>(s, row, sub);
    float sum[kPack] = {};
    for (int k0 = 0; k0 < s.K; k0 += kSlab) {
      int count = s.K - k0 < kSlab ? s.K - k0 : kSlab;
      for (int j = sub; j < count; j += kLanes) {
        mine[j] = SampleCorners::of(source.locate(s, row, k0 + j), weights.of(k0 + j), s.levels, s.M * s.D);
      }
      __syncwarp();
      if (q >= 0 && d0 < s.D) {
#pragma unroll 2
        for (int j = 0; j < count; ++j) {
          SampleCorners c = mine[j];
          float v[4][kPack];
          load_corners(map, c, v);
#pragma unroll
          for (int d = 0; d < kPack; ++d)
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[d] = math::fma(c.weight[i], v[i][d], sum[d]);
        }
      }
      __syncwarp();
    }
    if (q < 0 || d0 >= s.D) continue;
    Pack<T, kPack> out;
#pragma unroll
    for (int d = 0; d < kPack; ++d) out.x[d] = static_cast<T>(sum[d]);
    store_pack(y + row.row * s.D + d0, out);
  }
}

// p[0..kCount) += v in no fixed order: the last bits differ from run to run. One access of 16 bytes on sm_90.
template <int kCount>
__device__ __forceinline__ void add_unordered(float* p, const float (&v)[kCount]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr int kVectors = kCount / 4 * 4;  // p is a multiple of 16 bytes
#pragma unroll
  for (int i = 0; i < kVectors; i += 4)
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(p + i), "f"(v[i]), "f"(v[i + 1]), "f"(v[i + 2]), "f"(v[i + 3])
                 : "memory");
#else
  constexpr int kVectors = 0;
#endif
#pragma unroll
  for (int i = kVectors; i < kCount; ++i) atomicAdd(p + i, v[i]);
}

// The sums of four values over kLanes lanes: lane `sub` gets that of value corner_of_lane(sub). In each step
// half of the lanes take over half of the values, which needs 3 shuffles instead of 8 for four lanes.
template <int kLanes>
__device__ __forceinline__ int corner_of_lane(int sub) {
  return (sub & kLanes / 2 ? 2 : 0) + (sub & kLanes / 4 ? 1 : 0);
}
template <int kLanes>
__device__ __forceinline__ float sum_corners(const float (&x)[4], int sub) {
  bool high = (sub & kLanes / 2) != 0, odd = (sub & kLanes / 4) != 0;
  float a = (high ? x[2] : x[0]) + __shfl_xor_sync(kAllLanes, high ? x[0] : x[2], kLanes / 2);
  float b = (high ? x[3] : x[1]) + __shfl_xor_sync(kAllLanes, high ? x[1] : x[3], kLanes / 2);
  float c = (odd ? b : a) + __shfl_xor_sync(kAllLanes, odd ? a : b, kLanes / 4);
#pragma unroll
  for (int step = kLanes / 8; step > 0; step /= 2) c += __shfl_xor_sync(kAllLanes, c, step);
  return c;
}

struct alignas(16) CornerDots {
  float x[4];  // dy . corner
};

// The gradients of points, through Source::finish; with kUnordered also that of the maps, by float atomics.
// The lanes of a row sum all its channels. Grid: (groups of queries, heads of images).
template <class T, int kPack, int kLanes, bool kUnordered, class Source>
__global__ void __launch_bounds__(kGatherThreads, 5)
    gather_point_gradients(Source source, typename Source::Gradients gradients, SampleShape s,
                           QueryOrder order, const T* __restrict__ value, const T* __restrict__ dy,
                           float* unordered) {
  constexpr int kRows = kWarp / kLanes;
  constexpr bool kWide = kLanes == kWarp;  // rows may be longer than one pass of the lanes
  SACCADE_SHARED(SampleCorners, corners, kGatherWarps * kRows * kSlabPitch);
  SACCADE_SHARED(CornerDots, dots, kGatherWarps * kRows * kSlabPitch);
  int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  int sub = lane % kLanes, n = static_cast<int>(blockIdx.y) / s.M, m = static_cast<int>(blockIdx.y) % s.M;
  int slot = (warp * kRows + lane / kLanes) * kSlabPitch;
  int64_t map = s.map(n, m);
  auto group = order.group(s.levels, static_cast<int>(blockIdx.x));
  for (int first = warp * kRows; first < order.per_group; first += kGatherWarps * kRows) {
    int q = group.query(first + lane / kLanes);
    SampleRow row = s.row(n, q < 0 ? 0 : q, m);
    auto weights = source.template weights<kLanes>(s, row, sub);
    typename Source::Sums sums;
    float g[kPack] = {};
    if (!kWide && q >= 0 && sub * kPack < s.D) load_floats<kPack>(dy + row.row * s.D + sub * kPack, g);
    for (int k0 = 0; k0 < s.K; k0 += kSlab) {
      int count = s.K - k0 < kSlab ? s.K - k0 : kSlab;
      for (int j = sub; j < count; j += kLanes) {
        corners[slot + j] =
            SampleCorners::of(source.locate(s, row, k0 + j), weights.of(k0 + j), s.levels, s.M * s.D);
      }
      __syncwarp();
#pragma unroll 2
      for (int j = 0; j < count; ++j) {
        float dot[4] = {};
        if (q >= 0) {
          SampleCorners c = corners[slot + j];
          for (int d0 = sub * kPack; d0 < s.D; d0 += kLanes * kPack) {
            if (kWide) load_floats<kPack>(dy + row.row * s.D + d0, g);
            float v[4][kPack];
            load_corners(value + map + d0, c, v);
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
              for (int d = 0; d < kPack; ++d)
                if (c.offset[i] >= 0) dot[i] = math::fma(g[d], v[i][d], dot[i]);
            if constexpr (kUnordered) {
#pragma unroll
              for (int i = 0; i < 4; ++i) {
                float part[kPack];
#pragma unroll
                for (int d = 0; d < kPack; ++d) part[d] = c.weight[i] * g[d];
                if (c.offset[i] >= 0) add_unordered(unordered + map + d0 + c.offset[i], part);
              }
            }
            if (!kWide) break;
          }
        }
        float total = sum_corners<kLanes>(dot, sub);
        if (sub % (kLanes / 4) == 0) dots[slot + j].x[corner_of_lane<kLanes>(sub)] = total;
      }
      __syncwarp();
      for (int j = sub; j < count && q >= 0; j += kLanes)
        source.point_gradient(gradients, s, row, k0 + j, weights.of(k0 + j), dots[slot + j].x, sums);
      __syncwarp();
    }
    source.template finish<kLanes>(gradients, s, row, q >= 0, sub, weights, sums);
  }
}

// Calls f.operator()<kPack, kLanes>() for rows of D channels, with packs of 16 bytes if `packs`.
template <class T, class F>
void dispatch_rows(int D, bool packs, F&& f) {
  constexpr int kWidest = kPackWidth<T>;
  if (!packs) return f.template operator()<1, kWarp>();
  int lanes = D / kWidest;
  if (lanes <= 4) return f.template operator()<kWidest, 4>();
  if (lanes <= 8) return f.template operator()<kWidest, 8>();
  if (lanes <= 16) return f.template operator()<kWidest, 16>();
  f.template operator()<kWidest, kWarp>();
}

template <class T, class Source>
void launch_gather(const Source& source, const SampleShape& s, const Tensor& value, Tensor& y) {
  const T* v = value.data<T>();
  bool packs = packs_fit<kPackWidth<T>>(v, s.D) && packs_fit<kPackWidth<T>>(y.data<T>(), s.D);
  QueryOrder order = QueryOrder::of(s);
  dispatch_rows<T>(s.D, packs, [&]<int kPack, int kLanes>() {
    launch("gather_samples", &gather_samples<T, kPack, kLanes, Source>,
           {{order.groups, s.N * s.M, ceil_div(s.D, kPack * kLanes)}, kGatherThreads}, source, s, order, v,
           y.data<T>());
  });
}

// unordered: all zeros, f32 with value's shape, or undefined.
template <class T, class Source>
void launch_point_gradients(const Source& source, const typename Source::Gradients& gradients,
                            const SampleShape& s, const Tensor& value, const Tensor& dy, Tensor& unordered) {
  const T* v = value.data<T>();
  bool packs = packs_fit<kPackWidth<T>>(v, s.D) && packs_fit<kPackWidth<T>>(dy.data<T>(), s.D);
  QueryOrder order = QueryOrder::of(s);
  float* sum = data_or_null<float>(unordered);
  packs = packs && packs_fit<4>(sum, 0);  // add_unordered
  dispatch_rows<T>(s.D, packs, [&]<int kPack, int kLanes>() {
    auto kernel = sum ? &gather_point_gradients<T, kPack, kLanes, true, Source>
                      : &gather_point_gradients<T, kPack, kLanes, false, Source>;
    launch("gather_point_gradients", kernel, {{order.groups, s.N * s.M}, kGatherThreads}, source, gradients,
           s, order, v, dy.data<T>(), sum);
  });
}

}  // namespace saccade::cuda
