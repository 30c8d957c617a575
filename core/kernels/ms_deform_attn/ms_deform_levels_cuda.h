// Forward and the gradients of points for the usual shape of detectors: kPoints = 4 points on each of kLevels
// levels, at most 16 in all, and heads of kLanes packs. Here the compiler knows what sample_gather_cuda.h
// computes for every point. A lane owns kPer neighbouring points of one level: it reads their logits and
// offsets at once and keeps what backward needs again in its registers. A corner outside the map is read from
// the nearest cell inside, with weight 0, so that no load waits for a branch; only infinite values in such a
// cell could make a difference.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "core/kernels/common/sample_gather_cuda.h"
#include "core/kernels/ms_deform_attn/ms_deform_source.h"
#include "core/runtime/cuda/approx.h"

namespace saccade::cuda {

constexpr int kLevelPoints = 4, kLevelSlots = 16;
// A row's points use shared memory in two halves, so that most of it is left to the L1 cache.
constexpr int kLevelParts = 2;
// Size of a row there, in units of 16 bytes: puts rows in different banks.
constexpr int kLevelPitch = kLevelSlots / kLevelParts + 1;

// Blocks per multiprocessor: as many as its 64 Ki registers allow without spills.
template <int kThreads, int kLanes, int kLevels>
inline constexpr int kGatherBlocks = (kLanes == 4 && kLevels == 3 ? 640 : 1024) / kThreads;
template <int kThreads, int kLevels, bool kUnordered>
inline constexpr int kGradientBlocks = (kUnordered || kLevels == 3 ? 512 : 768) / kThreads;

template <int kLevels>
using LevelSource = kernels::MsDeformSource<float, LaneAccess, kLevelPoints, kLevels>;

// A point near a map. Points far away and NaNs are moved to just outside it.
struct LevelPoint {
  float fx, fy;
  int x, y;  // of the upper left corner

  static __device__ __forceinline__ LevelPoint at(float x, float y, int width, int height) {
    x = std::fmin(std::fmax(x, -2.0f), static_cast<float>(width));
    y = std::fmin(std::fmax(y, -2.0f), static_cast<float>(height));
    float xf = std::floor(x), yf = std::floor(y);
    return {x - xf, y - yf, static_cast<int>(xf), static_cast<int>(yf)};
  }
  __device__ __forceinline__ bool inside(int corner, int width, int height) const {
    return static_cast<unsigned>(x + (corner & 1)) < static_cast<unsigned>(width) &&
           static_cast<unsigned>(y + (corner >> 1)) < static_cast<unsigned>(height);
  }
  __device__ __forceinline__ float weight(int corner) const {
    return (corner & 1 ? fx : 1 - fx) * (corner >> 1 ? fy : 1 - fy);
  }
};

// The points of one lane. kLanes lanes share a row.
template <int kLanes, int kLevels>
struct LevelLane {
  static constexpr int kK = kLevelPoints * kLevels, kPer = kLevelSlots / kLanes;
  static constexpr int kActive = kK / kPer;  // lanes with points
  static constexpr int kHalf = kPer / kLevelParts, kShown = kK / kLevelParts;
  static_assert(kLevelPoints % kPer == 0 && kK <= kLevelSlots && kPer % kLevelParts == 0);

  bool active;
  int sub, level, width, height;
  int first, cell_step;  // in elements: index of the level's first vector, and distance of cells
  LevelPoint point[kPer];
  float weight[kPer];
  float step_x, step_y;
  float sampled[kPer];  // gradients with respect to the weights

  __device__ __forceinline__ LevelLane(const SampleShape& s, int lane)
      : active(lane < kActive), sub(lane), level(active ? lane * kPer / kLevelPoints : 0) {
    width = s.levels.width[level];
    height = s.levels.height[level];
    cell_step = s.M * s.D;
    first = s.levels.start[level] * cell_step;
  }
  // Slots are dense, and neighbouring lanes write neighbouring ones.
  __device__ __forceinline__ int slot(int i) const { return i % kHalf * kActive + sub; }
  __device__ __forceinline__ int64_t first_point(const SampleRow& row) const {
    return row.row * kK + (active ? sub : 0) * kPer;
  }

  // Computes the softmax and the positions of a row.
  __device__ __forceinline__ void locate(const LevelSource<kLevels>& source, const SampleRow& row) {
    constexpr float kLog2E = 1.44269504088896341f;
    const float* ref = source.reference + (row.query * kLevels + level) * source.R;
    auto centre = load_pack<2>(ref);
    step_x = step_y = 1;
    if (source.R == 4) {
      auto size = load_pack<2>(ref + 2);
      step_x = size.x[0] * source.half * static_cast<float>(width);
      step_y = size.x[1] * source.half * static_cast<float>(height);
    }
    auto z = load_wide<kPer>(source.logits + first_point(row));
    auto offset = load_wide<2 * kPer>(source.offsets + 2 * first_point(row));
    float most = -std::numeric_limits<float>::infinity(), sum = 0;
#pragma unroll
    for (int i = 0; i < kPer; ++i) most = active && z.x[i] > most ? z.x[i] : most;
    most = warp_max<kLanes>(most) * kLog2E;
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      weight[i] = exp2_approx(math::fma(z.x[i], kLog2E, -most));
      sum += active ? weight[i] : 0.0f;
    }
    float scale = reciprocal_approx(warp_sum<kLanes>(sum));
    float x = math::fma(centre.x[0], static_cast<float>(width), -0.5f),
          y = math::fma(centre.x[1], static_cast<float>(height), -0.5f);
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      weight[i] *= scale;
      point[i] = LevelPoint::at(math::fma(offset.x[2 * i], step_x, x),
                                math::fma(offset.x[2 * i + 1], step_y, y), width, height);
    }
  }
  // Writes what all lanes of the row read for a half of the points: the addresses of the corners and, with
  // kWeights, their weights.
  template <bool kWeights>
  __device__ __forceinline__ void show(int part, Pack<int, 4>* places, Pack<float, 4>* weights) const {
    if (kActive < kLanes && !active) return;
#pragma unroll
    for (int i = part * kHalf; i < (part + 1) * kHalf; ++i) {
      const LevelPoint& p = point[i];
      Pack<int, 4> place;
      Pack<float, 4> w;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        int x = std::min(std::max(p.x + (c & 1), 0), width - 1),
            y = std::min(std::max(p.y + (c >> 1), 0), height - 1);
        place.x[c] = first + (y * width + x) * cell_step;
        w.x[c] = p.inside(c, width, height) ? p.weight(c) * weight[i] : 0.0f;
      }
      places[slot(i)] = place;
      if constexpr (kWeights) weights[slot(i)] = w;
    }
  }
  using Gradients = typename LevelSource<kLevels>::Gradients;
  // The position gradients for a half of the points. dots, by slot: dy times the vectors of the corners.
  __device__ __forceinline__ void take(int part, const Pack<float, 4>* dots, const Gradients& out,
                                       const SampleRow& row, bool valid) {
    if (kActive < kLanes && !active) return;
    Pack<float, 2 * kHalf> slopes;
#pragma unroll
    for (int i = part * kHalf, j = 0; i < (part + 1) * kHalf; ++i, j += 2) {
      const LevelPoint& p = point[i];
      Pack<float, 4> dot = dots[slot(i)];
      float d[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) d[c] = p.inside(c, width, height) ? dot.x[c] : 0.0f;
      float top = d[1] - d[0], bottom = d[3] - d[2];
      slopes.x[j] = weight[i] * math::fma(p.fy, bottom - top, top);
      top = math::fma(p.fx, top, d[0]), bottom = math::fma(p.fx, bottom, d[2]);
      slopes.x[j + 1] = weight[i] * (bottom - top);
      sampled[i] = math::fma(p.fy, bottom - top, top);
    }
    if (!valid) return;
    int64_t j = 2 * (first_point(row) + part * kHalf);
    if (out.doffsets) store_slopes(out.doffsets + j, slopes, step_x, step_y);
    if (out.dlocations)
      store_slopes(out.dlocations + j, slopes, static_cast<float>(width), static_cast<float>(height));
  }
  __device__ __forceinline__ void finish(const Gradients& out, const SampleRow& row, bool valid) const {
    if (!out.dlogits) return;
    float delta = 0;
#pragma unroll
    for (int i = 0; i < kPer; ++i) delta += active ? weight[i] * sampled[i] : 0.0f;
    delta = warp_sum<kLanes>(delta);
    if (!valid || !active) return;
    Pack<float, kPer> d;
#pragma unroll
    for (int i = 0; i < kPer; ++i) d.x[i] = weight[i] * (sampled[i] - delta);
    store_wide<kPer>(out.dlogits + first_point(row), d);
  }
  static __device__ __forceinline__ void store_slopes(float* out, Pack<float, 2 * kHalf> slopes, float x,
                                                      float y) {
#pragma unroll
    for (int i = 0; i < kHalf; ++i) slopes.x[2 * i] *= x, slopes.x[2 * i + 1] *= y;
    store_wide<2 * kHalf>(out, slopes);
  }
};

// Grid: (groups of queries, heads of images).
template <class T, int kLanes, int kLevels, int kThreads>
__global__ void __launch_bounds__(kThreads, kGatherBlocks<kThreads, kLanes, kLevels>)
    gather_levels(LevelSource<kLevels> source, SampleShape s, QueryOrder order, const T* __restrict__ value,
                  T* __restrict__ y) {
  constexpr int kPack = kPackWidth<T>, kRows = kThreads / kLanes;
  using Packed = Pack<int, 4>;
  using Weights = Pack<float, 4>;
  SACCADE_SHARED(Packed, places, kRows * kLevelPitch);
  SACCADE_SHARED(Weights, weights, kRows * kLevelPitch);
  int mine = static_cast<int>(threadIdx.x) / kLanes, sub = static_cast<int>(threadIdx.x) % kLanes;
  int n = static_cast<int>(blockIdx.y) / s.M, m = static_cast<int>(blockIdx.y) % s.M;
  LevelLane<kLanes, kLevels> lane(s, sub);
  auto group = order.group(s.levels, static_cast<int>(blockIdx.x));
  const T* map = keep_address(value + s.map(n, m) + sub * kPack);
  Packed* my_places = places + mine * kLevelPitch;
  Weights* my_weights = weights + mine * kLevelPitch;
  for (int i = mine; i - mine < order.per_group; i += kRows) {
    int q = group.query(i);
    SampleRow row = s.row(n, q < 0 ? 0 : q, m);
    lane.locate(source, row);
    float sum[kPack] = {};
#pragma unroll
    for (int part = 0; part < kLevelParts; ++part) {
      lane.template show<true>(part, my_places, my_weights);
      __syncwarp();
#pragma unroll 2
      for (int k = 0; k < lane.kShown; ++k) {
        Packed place = my_places[k];
        Weights w = my_weights[k];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          float v[kPack];
          load_floats<kPack>(map + place.x[c], v);
#pragma unroll
          for (int d = 0; d < kPack; ++d) sum[d] = math::fma(w.x[c], v[d], sum[d]);
        }
      }
      __syncwarp();
    }
    if (q < 0) continue;
    Pack<T, kPack> out;
#pragma unroll
    for (int d = 0; d < kPack; ++d) out.x[d] = static_cast<T>(sum[d]);
    store_pack(y + row.row * s.D + sub * kPack, out);
  }
}

// The gradients of points; with kUnordered also of the maps, by float atomics. Same grid as gather_levels.
template <class T, int kLanes, int kLevels, bool kUnordered, int kThreads>
__global__ void __launch_bounds__(kThreads, kGradientBlocks<kThreads, kLevels, kUnordered>)
    gather_level_gradients(LevelSource<kLevels> source, typename LevelSource<kLevels>::Gradients gradients,
                           SampleShape s, QueryOrder order, const T* __restrict__ value,
                           const T* __restrict__ dy, float* unordered) {
  constexpr int kPack = kPackWidth<T>, kRows = kThreads / kLanes;
  using Packed = Pack<int, 4>;
  using Weights = Pack<float, 4>;
  SACCADE_SHARED(Packed, places, kRows * kLevelPitch);
  SACCADE_SHARED(Weights, dots, kRows * kLevelPitch);  // the weights first
  int mine = static_cast<int>(threadIdx.x) / kLanes, sub = static_cast<int>(threadIdx.x) % kLanes;
  int n = static_cast<int>(blockIdx.y) / s.M, m = static_cast<int>(blockIdx.y) % s.M;
  using Lane = LevelLane<kLanes, kLevels>;
  Lane lane(s, sub);
  auto group = order.group(s.levels, static_cast<int>(blockIdx.x));
  const T* map = keep_address(value + s.map(n, m) + sub * kPack);
  [[maybe_unused]] float* sums = kUnordered ? unordered + s.map(n, m) + sub * kPack : nullptr;
  Packed* my_places = places + mine * kLevelPitch;
  Weights* my_dots = dots + mine * kLevelPitch;
  for (int i0 = mine; i0 - mine < order.per_group; i0 += kRows) {
    int q = group.query(i0);
    SampleRow row = s.row(n, q < 0 ? 0 : q, m);
    float g[kPack];
    load_floats<kPack>(dy + row.row * s.D + sub * kPack, g);
    lane.locate(source, row);
#pragma unroll
    for (int part = 0; part < kLevelParts; ++part) {
      lane.template show<kUnordered>(part, my_places, my_dots);
      __syncwarp();
#pragma unroll 2
      for (int k = 0; k < lane.kShown; ++k) {
        Packed place = my_places[k];
        float dot[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          float v[kPack];
          load_floats<kPack>(map + place.x[c], v);
          dot[c] = g[0] * v[0];
#pragma unroll
          for (int d = 1; d < kPack; ++d) dot[c] = math::fma(g[d], v[d], dot[c]);
        }
        if constexpr (kUnordered) {
          Weights w = my_dots[k];
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            float piece[kPack];
#pragma unroll
            for (int d = 0; d < kPack; ++d) piece[d] = w.x[c] * g[d];
            if (q >= 0 && w.x[c] != 0) add_unordered(sums + place.x[c], piece);
          }
          __syncwarp();  // all have read the weights, which the dots replace
        }
        float total = sum_corners<kLanes>(dot, sub);
        if (sub % (kLanes / 4) == 0) my_dots[k].x[corner_of_lane<kLanes>(sub)] = total;
      }
      __syncwarp();
      lane.take(part, my_dots, gradients, row, q >= 0);
      __syncwarp();
    }
    lane.finish(gradients, row, q >= 0);
  }
}

// Calls f<threads of a block>(): at most kMax, and one for every lane of the 64 queries of a tile, so that
// all its reads are in flight together.
template <int kLanes, int kMax, class F>
void with_gather_threads(const QueryOrder& order, const F& f) {
  const int threads = std::clamp(order.per_group * kLanes, 128, 512);
  if (threads == 128) return f.template operator()<128>();
  if constexpr (std::min(kMax, kLanes * QueryOrder::kQueries) >= 512)
    if (threads == 512) return f.template operator()<512>();
  f.template operator()<256>();
}

// Returns whether these kernels support the shape; `wide`: pointers that they access in packs of four floats.
inline bool levels_fit(const SampleShape& s, int points, const void* reference,
                       std::initializer_list<const void*> wide) {
  bool aligned = reinterpret_cast<uintptr_t>(reference) % 8 == 0;
  for (const void* p : wide) aligned = aligned && reinterpret_cast<uintptr_t>(p) % 16 == 0;
  return aligned && points == kLevelPoints && (s.levels.count == 3 || s.levels.count == 4) && s.D == 32;
}

template <class T, int kLevels>
void launch_levels(const LevelSource<kLevels>& source, const SampleShape& s, const Tensor& value, Tensor& y) {
  constexpr int kLanes = 32 / kPackWidth<T>;
  QueryOrder order = QueryOrder::of(s);
  with_gather_threads<kLanes, 512>(order, [&]<int kThreads>() {
    launch("gather_levels", &gather_levels<T, kLanes, kLevels, kThreads>,
           {{order.groups, s.N * s.M}, kThreads}, source, s, order, value.data<T>(), y.data<T>());
  });
}

// unordered: all zeros, f32 with value's shape, or undefined.
template <class T, int kLevels>
void launch_level_gradients(const LevelSource<kLevels>& source,
                            const typename LevelSource<kLevels>::Gradients& gradients, const SampleShape& s,
                            const Tensor& value, const Tensor& dy, Tensor& unordered) {
  constexpr int kLanes = 32 / kPackWidth<T>;
  QueryOrder order = QueryOrder::of(s);
  with_gather_threads<kLanes, 256>(order, [&]<int kThreads>() {
    auto kernel = unordered.defined() ? &gather_level_gradients<T, kLanes, kLevels, true, kThreads>
                                      : &gather_level_gradients<T, kLanes, kLevels, false, kThreads>;
    launch("gather_level_gradients", kernel, {{order.groups, s.N * s.M}, kThreads}, source, gradients, s,
           order, value.data<T>(), dy.data<T>(), data_or_null<float>(unordered));
  });
}

}  // namespace saccade::cuda
