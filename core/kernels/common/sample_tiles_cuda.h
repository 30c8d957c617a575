// Sorts the points of rows of samples by tiles of cells: steps 1 to 3 of sample_scatter_cuda.h.
#pragma once

#include <algorithm>

#include "core/kernels/common/samples_cuda.h"

namespace saccade::cuda {

constexpr int kTile = 8, kTileCells = kTile * kTile;
constexpr int kTileSide = kTile + 1, kTileValues = kTileSide * kTileSide;  // cells that its points touch
constexpr int kSegment = 2048;                                             // points that a block adds
constexpr int kTileThreads = 256, kTileWarps = kTileThreads / kWarp;
constexpr int kTileLanes = 8;
constexpr int kGridThreads = 256;

// The tiles of all levels, over the positions of upper left corners, which start at -1.
struct SampleTiles {
  int columns[SampleLevels::kMax] = {}, first[SampleLevels::kMax + 1] = {};
  int count = 0;              // tiles of one image and head
  int chunk = 0, chunks = 0;  // queries of one warp of count_samples and place_samples
  int segments = 0;           // the maximum for one image and head

  static SampleTiles of(const SampleShape& s) {
    SampleTiles t;
    for (int l = 0; l < s.levels.count; ++l) {
      t.columns[l] = s.levels.width[l] / kTile + 1;
      t.first[l + 1] = t.first[l] + t.columns[l] * (s.levels.height[l] / kTile + 1);
    }
    t.count = t.first[s.levels.count];
    constexpr int kChunkPoints = 1024;
    t.chunk = std::max(1, kChunkPoints / s.K);
    t.chunks = (s.Q + t.chunk - 1) / t.chunk;
    // A tile's last segment may be short; only tiles with points have one.
    t.segments = std::min(t.count, s.Q * s.K) + s.Q * s.K / kSegment;
    return t;
  }
  __device__ __forceinline__ int tile(const SamplePosition<float>& p) const {
    return first[p.level] + (p.at.y0 + 1) / kTile * columns[p.level] + (p.at.x0 + 1) / kTile;
  }
};

struct alignas(16) SampleRecord {
  int query;
  float x, y, weight;
};

// counts [images * M, chunks, tiles]. Grid: (chunks, heads of images).
template <class Source>
__global__ void __launch_bounds__(kWarp)
    count_samples(Source source, SampleShape s, SampleTiles t, int first_image, int* counts) {
  SACCADE_DYNAMIC_SHARED(int, histogram);
  int lane = static_cast<int>(threadIdx.x), chunk = static_cast<int>(blockIdx.x);
  int n = first_image + static_cast<int>(blockIdx.y) / s.M, m = static_cast<int>(blockIdx.y) % s.M;
  for (int b = lane; b < t.count; b += kWarp) histogram[b] = 0;
  __syncwarp();
  const int K = Source::kK > 0 ? Source::kK : s.K;
  int q0 = chunk * t.chunk, points = (s.Q - q0 < t.chunk ? s.Q - q0 : t.chunk) * K;
#pragma unroll 4
  for (int i = lane; i < points; i += kWarp) {
    auto p = source.locate(s, s.row(n, q0 + i / K, m), i % K);
    if (p.at.touches) atomicAdd(&histogram[t.tile(p)], 1);
  }
  __syncwarp();
  int* out = counts + (static_cast<int64_t>(blockIdx.y) * t.chunks + chunk) * t.count;
  for (int b = lane; b < t.count; b += kWarp) out[b] = histogram[b];
}

// Replaces each count by the number of points of its tile in the previous chunks; totals [images * M, tiles].
// A block has kWarp tiles of a head, and each of its kScanRuns warps has a run of the chunks, so that there
// are enough threads. Grid: (runs of kWarp tiles, heads of images).
constexpr int kScanRuns = 8;
template <int kThreads>
__global__ void __launch_bounds__(kThreads) scan_chunks(int tiles, int chunks, int* counts, int* totals) {
  SACCADE_SHARED(int, sums, kThreads);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, run = static_cast<int>(threadIdx.x) / kWarp;
  const int tile = static_cast<int>(blockIdx.x) * kWarp + lane,
            per_run = (chunks + kScanRuns - 1) / kScanRuns;
  const int begin = run * per_run, end = begin + per_run < chunks ? begin + per_run : chunks;
  int* p = counts + static_cast<int64_t>(blockIdx.y) * chunks * tiles + tile;
  int sum = 0;
  if (tile < tiles) {
#pragma unroll 8
    for (int c = begin; c < end; ++c) sum += p[static_cast<int64_t>(c) * tiles];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (tile >= tiles) return;
  int before = 0;
  for (int r = 0; r < run; ++r) before += sums[r * kWarp + lane];
  if (run == kScanRuns - 1) totals[static_cast<int64_t>(blockIdx.y) * tiles + tile] = before + sum;
#pragma unroll 8
  for (int c = begin; c < end; ++c) {
    const int here = p[static_cast<int64_t>(c) * tiles];
    p[static_cast<int64_t>(c) * tiles] = before;
    before += here;
  }
}

// Returns the sum over the previous threads of a block of kTileThreads; `total` becomes the sum over all.
__device__ __forceinline__ int block_exclusive_sum(int value, int* scratch, int& total) {
  int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  int sum = value;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    int other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == kWarp - 1) scratch[warp] = sum;
  __syncthreads();
  int before = 0;
  total = 0;
  for (int w = 0; w < kTileWarps; ++w) {
    before += w < warp ? scratch[w] : 0;
    total += scratch[w];
  }
  __syncthreads();
  return before + sum - value;
}

// starts and segments [images * M, tiles + 1]: each tile's first point and first segment. Each block has one
// head of an image.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    scan_tiles(const int* totals, int tiles, int* starts, int* segments) {
  SACCADE_SHARED(int, scratch, kTileWarps);
  int64_t i = blockIdx.x;
  int points = 0, parts = 0;
  for (int b0 = 0; b0 <= tiles; b0 += kTileThreads) {
    int b = b0 + static_cast<int>(threadIdx.x), here = b < tiles ? totals[i * tiles + b] : 0, sum;
    int start = points + block_exclusive_sum(here, scratch, sum);
    points += sum;
    int segment = parts + block_exclusive_sum((here + kSegment - 1) / kSegment, scratch, sum);
    parts += sum;
    if (b > tiles) continue;
    starts[i * (tiles + 1) + b] = start;
    segments[i * (tiles + 1) + b] = segment;
  }
}

// records [images * M, Q * K], by tile, then in the order of queries and points. Same grid as count_samples;
// dynamic shared memory for the positions of all tiles.
template <class Source>
__global__ void __launch_bounds__(kWarp)
    place_samples(Source source, SampleShape s, SampleTiles t, int first_image,
                  const int* __restrict__ counts, const int* __restrict__ starts, SampleRecord* records) {
  SACCADE_DYNAMIC_SHARED(int, next);
  int lane = static_cast<int>(threadIdx.x), chunk = static_cast<int>(blockIdx.x);
  int64_t head = blockIdx.y;
  int n = first_image + static_cast<int>(blockIdx.y) / s.M, m = static_cast<int>(blockIdx.y) % s.M;
  const int* before = counts + (head * t.chunks + chunk) * t.count;
  for (int b = lane; b < t.count; b += kWarp) next[b] = starts[head * (t.count + 1) + b] + before[b];
  records += head * s.Q * s.K;
  int q_end = (chunk + 1) * t.chunk < s.Q ? (chunk + 1) * t.chunk : s.Q;
  // Places point k of query q; all lanes call it, those without a point with tile < 0.
  auto place = [&](const SamplePosition<float>& p, int q, float weight, int tile) {
    unsigned same = __match_any_sync(kAllLanes, tile);
    int rank = __popc(same & ((1u << lane) - 1));
    int at = tile >= 0 ? next[tile] + rank : 0;
    __syncwarp();
    if (tile >= 0) {
      if (rank == 0) next[tile] = at + __popc(same);
      records[at] = {q, p.x, p.y, weight};
    }
    __syncwarp();
  };
  constexpr int kK = Source::kK;
  if constexpr (kK > 0 && kWarp % (kK > 0 ? kK : 1) == 0) {
    // The lanes of a query compute its weights together.
    __syncwarp();
#pragma unroll 2
    for (int q0 = chunk * t.chunk; q0 < q_end; q0 += kWarp / kK) {
      int q = q0 + lane / kK, k = static_cast<int>(threadIdx.x % kK);
      SampleRow row = s.row(n, q < q_end ? q : q_end - 1, m);
      auto p = source.locate(s, row, k);
      float weight = source.template weights<kK>(s, row, k).of(k);
      place(p, q, weight, q < q_end && p.at.touches ? t.tile(p) : -1);
    }
  } else {
    SACCADE_SHARED(typename Source::Weights, weights, kWarp);
    // First the weights of 32 queries, then their points.
    for (int q0 = chunk * t.chunk; q0 < q_end; q0 += kWarp) {
      int queries = q_end - q0 < kWarp ? q_end - q0 : kWarp;
      if (lane < queries) weights[lane] = source.template weights<1>(s, s.row(n, q0 + lane, m), 0);
      __syncwarp();
      for (int i0 = 0; i0 < queries * s.K; i0 += kWarp) {
        bool valid = i0 + lane < queries * s.K;
        int i = valid ? i0 + lane : 0, q = i / s.K, k = i % s.K;
        auto p = source.locate(s, s.row(n, q0 + q, m), k);
        place(p, q0 + q, weights[q].of(k), valid && p.at.touches ? t.tile(p) : -1);
      }
    }
  }
}

}  // namespace saccade::cuda
