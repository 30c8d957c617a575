// The gradient of the maps without atomics on floats: every element is added by one owner in one order, that
// of the queries and points.
//
//   1. Each level is cut into tiles of 8 x 8 cells, and a point belongs to the tile of its upper left corner.
//      count_samples counts, for every chunk of queries (one warp), its points a tile.
//   2. scan_chunks and scan_tiles turn the counts into places: by tile, then by chunk.
//   3. place_samples writes the points (query, position, weight) to their places. Inside a chunk a warp takes
//      them 32 at a time in order, and a lane's rank among those of the same tile is the number of them
//      before it, so the list of a tile is sorted by query and point: a stable counting sort.
//   4. add_tiles gives a block a segment of a tile's list. It sorts it by cell in shared memory, again
//   stably;
//      then each of the 9 x 9 cells that these points touch is summed in registers, corner after corner, by
//      kTileLanes threads that hold its channels: no cell is shared, so nothing is atomic.
//   5. sum_tiles adds, for each cell of the maps, the segments of its tile and of the tiles whose last row or
//      column it is.
#pragma once

#include "core/kernels/common/sample_gather_cuda.h"
#include "core/kernels/copy/copy.h"
#include "core/tensor/execution.h"

namespace saccade::cuda {

constexpr int kTile = 8, kTileCells = kTile * kTile;
constexpr int kTileSide = kTile + 1, kTileValues = kTileSide * kTileSide;  // what its points touch
constexpr int kSegment = 2048;                                             // points that a block adds
constexpr int kTileThreads = 256, kTileWarps = kTileThreads / kWarp;
constexpr int kTileLanes = 8;
constexpr int kGridThreads = 256;

// The tiles of all levels, over the positions of upper left corners, which start at -1.
struct SampleTiles {
  int columns[SampleLevels::kMax] = {}, first[SampleLevels::kMax + 1] = {};
  int count = 0;              // of one image and head
  int chunk = 0, chunks = 0;  // queries of one warp of count_samples and place_samples
  int segments = 0;           // the most that one image and head can have

  static SampleTiles of(const SampleShape& s) {
    SampleTiles t;
    for (int l = 0; l < s.levels.count; ++l) {
      t.columns[l] = s.levels.width[l] / kTile + 1;
      t.first[l + 1] = t.first[l] + t.columns[l] * (s.levels.height[l] / kTile + 1);
    }
    t.count = t.first[s.levels.count];
    constexpr int kChunkPoints = 2048;
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
  int q0 = chunk * t.chunk, points = (s.Q - q0 < t.chunk ? s.Q - q0 : t.chunk) * s.K;
#pragma unroll 4
  for (int i = lane; i < points; i += kWarp) {
    auto p = source.locate(s, s.row(n, q0 + i / s.K, m), i % s.K);
    if (p.at.touches) atomicAdd(&histogram[t.tile(p)], 1);
  }
  __syncwarp();
  int* out = counts + (static_cast<int64_t>(blockIdx.y) * t.chunks + chunk) * t.count;
  for (int b = lane; b < t.count; b += kWarp) out[b] = histogram[b];
}

// Each count becomes the number of points of its tile in the chunks before; totals [images * M, tiles].
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    scan_chunks(int64_t count, int tiles, int chunks, int* counts, int* totals) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kGridThreads + threadIdx.x;
  if (i >= count) return;
  int* p = counts + i / tiles * chunks * tiles + i % tiles;
  int sum = 0;
#pragma unroll 8
  for (int c = 0; c < chunks; ++c) {
    int here = p[static_cast<int64_t>(c) * tiles];
    p[static_cast<int64_t>(c) * tiles] = sum;
    sum += here;
  }
  totals[i] = sum;
}

// The sum over the threads before this one of a block of kTileThreads, and over all in `total`.
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

// starts and segments [images * M, tiles + 1]: each tile's first point and first segment. A block has one
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

// records [images * M, Q * K], by tile, then in the order of queries and points. Grid as count_samples;
// dynamic shared memory for the places of all tiles.
template <class Source>
__global__ void __launch_bounds__(kWarp)
    place_samples(Source source, SampleShape s, SampleTiles t, int first_image,
                  const int* __restrict__ counts, const int* __restrict__ starts, SampleRecord* records) {
  SACCADE_DYNAMIC_SHARED(int, next);
  int lane = static_cast<int>(threadIdx.x), chunk = static_cast<int>(blockIdx.x);
  int64_t head = blockIdx.y;
  int n = first_image + static_cast<int>(blockIdx.y) / s.M, m = static_cast<int>(blockIdx.y) % s.M;
  SACCADE_SHARED(typename Source::Weights, weights, kWarp);
  const int* before = counts + (head * t.chunks + chunk) * t.count;
  for (int b = lane; b < t.count; b += kWarp) next[b] = starts[head * (t.count + 1) + b] + before[b];
  records += head * s.Q * s.K;
  int q_end = (chunk + 1) * t.chunk < s.Q ? (chunk + 1) * t.chunk : s.Q;
  // The weights of 32 queries, then their points.
  for (int q0 = chunk * t.chunk; q0 < q_end; q0 += kWarp) {
    int queries = q_end - q0 < kWarp ? q_end - q0 : kWarp;
    if (lane < queries) weights[lane] = source.template weights<1>(s, s.row(n, q0 + lane, m), 0);
    __syncwarp();
    for (int i0 = 0; i0 < queries * s.K; i0 += kWarp) {
      int i = i0 + lane, tile = -1;
      SampleRecord record;
      if (i < queries * s.K) {
        int q = i / s.K, k = i % s.K;
        auto p = source.locate(s, s.row(n, q0 + q, m), k);
        record = {q0 + q, p.x, p.y, weights[q].of(k)};
        if (p.at.touches) tile = t.tile(p);
      }
      unsigned same = __match_any_sync(kAllLanes, tile);
      int rank = __popc(same & ((1u << lane) - 1));
      int place = tile >= 0 ? next[tile] + rank : 0;
      __syncwarp();
      if (tile >= 0) {
        if (rank == 0) next[tile] = place + __popc(same);
        records[place] = record;
      }
      __syncwarp();
    }
  }
}

// parts [images * M, segments, 81, D]. Grid: (segments, heads of images). kPack channels a thread, 4 or 1.
// Long, since its two halves, sorting the segment and summing it, share the block's shared memory.
template <class T, int kPack>
__global__ void __launch_bounds__(kTileThreads)
    add_tiles(SampleShape s, SampleTiles t, int first_image, const SampleRecord* __restrict__ records,
              const int* __restrict__ starts, const int* __restrict__ segments, const T* __restrict__ dy,
              float* parts) {
  SACCADE_SHARED(SampleRecord, list, kSegment);
  SACCADE_SHARED(uint8_t, cells, kSegment);
  SACCADE_SHARED(uint16_t, sorted, kSegment);
  SACCADE_SHARED(int, places, kTileCells* kTileWarps);  // by cell, then by warp
  SACCADE_SHARED(int, scratch, kTileWarps);
  int64_t head = blockIdx.y;
  int n = first_image + static_cast<int>(blockIdx.y) / s.M, m = static_cast<int>(blockIdx.y) % s.M;
  int segment = static_cast<int>(blockIdx.x);
  const int* first = segments + head * (t.count + 1);
  if (segment >= first[t.count]) return;
  int tile = 0;
  for (int end = t.count; end - tile > 1;) {  // the last tile whose first segment is not behind this one
    int middle = (tile + end) / 2;
    (first[middle] <= segment ? tile : end) = middle;
  }
  int level = 0;
  while (tile >= t.first[level + 1]) ++level;
  int tile_x = (tile - t.first[level]) % t.columns[level] * kTile,
      tile_y = (tile - t.first[level]) / t.columns[level] * kTile;
  int begin = starts[head * (t.count + 1) + tile] + (segment - first[tile]) * kSegment;
  int count = starts[head * (t.count + 1) + tile + 1] - begin;
  if (count > kSegment) count = kSegment;

  // A stable counting sort by cell; each warp has its own part of the list and its own counters.
  int tid = static_cast<int>(threadIdx.x), lane = tid % kWarp, warp = tid / kWarp;
  for (int i = tid; i < kTileCells * kTileWarps; i += kTileThreads) places[i] = 0;
  records += head * s.Q * s.K + begin;
  int share = (count + kTileThreads - 1) / kTileThreads * kWarp;  // of a warp
  int i_end = (warp + 1) * share < count ? (warp + 1) * share : count;
  __syncthreads();
  for (int i0 = warp * share; i0 < i_end; i0 += kWarp) {
    int i = i0 + lane, cell = -1;
    if (i < i_end) {
      SampleRecord r = records[i];
      float xf = std::floor(r.x), yf = std::floor(r.y);
      cell = (static_cast<int>(yf) + 1 - tile_y) * kTile + static_cast<int>(xf) + 1 - tile_x;
      r.x -= xf;
      r.y -= yf;
      list[i] = r;
      cells[i] = static_cast<uint8_t>(cell);
    }
    unsigned same = __match_any_sync(kAllLanes, cell);
    if (cell >= 0 && (same & ((1u << lane) - 1)) == 0) places[cell * kTileWarps + warp] += __popc(same);
    __syncwarp();
  }
  __syncthreads();
  int a = places[2 * tid], b = places[2 * tid + 1], total;
  int before = block_exclusive_sum(a + b, scratch, total);
  places[2 * tid] = before;
  places[2 * tid + 1] = before + a;
  __syncthreads();
  for (int i0 = warp * share; i0 < i_end; i0 += kWarp) {
    int i = i0 + lane, cell = i < i_end ? cells[i] : -1;
    unsigned same = __match_any_sync(kAllLanes, cell);
    int rank = __popc(same & ((1u << lane) - 1));
    int place = cell >= 0 ? places[cell * kTileWarps + warp] + rank : 0;
    __syncwarp();
    if (cell >= 0) {
      if (rank == 0) places[cell * kTileWarps + warp] = place + __popc(same);
      sorted[place] = static_cast<uint16_t>(i);
    }
    __syncwarp();
  }
  __syncthreads();

  // Now the last counter of a cell is the end of its list.
  int sub = tid % kTileLanes;
  dy += s.row(n, 0, m).row * s.D;
  for (int v = tid / kTileLanes; v < kTileValues; v += kTileThreads / kTileLanes) {
    int y = v / kTileSide, x = v % kTileSide;
    float* out = parts + ((head * t.segments + segment) * kTileValues + v) * s.D;
    for (int d0 = 0; d0 < s.D; d0 += kTileLanes * kPack) {
      int d = d0 + sub * kPack;
      if (d >= s.D) continue;
      float sum[kPack] = {};
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        int cx = x - (c & 1), cy = y - (c >> 1);
        if (cx < 0 || cy < 0 || cx >= kTile || cy >= kTile) continue;
        int cell = cy * kTile + cx;
        int end = places[cell * kTileWarps + kTileWarps - 1];
#pragma unroll 4
        for (int i = cell > 0 ? places[cell * kTileWarps - 1] : 0; i < end; ++i) {
          SampleRecord r = list[sorted[i]];
          float w = (c & 1 ? r.x : 1 - r.x) * (c >> 1 ? r.y : 1 - r.y) * r.weight;
          auto g = load_pack<kPack>(dy + static_cast<int64_t>(r.query) * s.M * s.D + d);
#pragma unroll
          for (int e = 0; e < kPack; ++e) sum[e] += w * static_cast<float>(g.x[e]);
        }
      }
      Pack<float, kPack> result;
#pragma unroll
      for (int e = 0; e < kPack; ++e) result.x[e] = sum[e];
      store_pack(out + d, result);
    }
  }
}

// dvalue [images, S, M, D] from the parts; a thread has kPack channels of a cell.
template <class T, int kPack>
__global__ void __launch_bounds__(kGridThreads)
    sum_tiles(int64_t count, SampleShape s, SampleTiles t, const int* __restrict__ segments,
              const float* __restrict__ parts, T* dvalue) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kGridThreads + threadIdx.x;
  if (i >= count) return;
  int per_row = s.D / kPack, d = static_cast<int>(i % per_row) * kPack;
  int64_t token = i / per_row / s.M;
  auto m = static_cast<int>(i / per_row % s.M), cell = static_cast<int>(token % s.levels.tokens);
  int64_t head = token / s.levels.tokens * s.M + m;
  int level = s.levels.count - 1;
  while (cell < s.levels.start[level]) --level;
  cell -= s.levels.start[level];
  // As the lower right corner of a point the cell has this position.
  int x = cell % s.levels.width[level] + 1, y = cell / s.levels.width[level] + 1;
  const int* first = segments + head * (t.count + 1);
  float sum[kPack] = {};
  for (int c = 0; c < 4; ++c) {
    bool left = (c & 1) == 0,
         above = (c >> 1) == 0;  // the tile before, which has the cell in its last column
    if ((left && x % kTile != 0) || (above && y % kTile != 0)) continue;
    int tile = t.first[level] + (y / kTile - above) * t.columns[level] + x / kTile - left;
    int vx = left ? kTile : x % kTile, vy = above ? kTile : y % kTile;
    for (int part = first[tile]; part < first[tile + 1]; ++part) {
      auto p = load_pack<kPack>(parts +
                                ((head * t.segments + part) * kTileValues + vy * kTileSide + vx) * s.D + d);
#pragma unroll
      for (int e = 0; e < kPack; ++e) sum[e] += p.x[e];
    }
  }
  Pack<T, kPack> out;
#pragma unroll
  for (int e = 0; e < kPack; ++e) out.x[e] = static_cast<T>(sum[e]);
  store_pack(dvalue + i * kPack, out);
}

// Whether scatter_samples takes the shape: a warp counts all tiles in shared memory.
inline bool scatter_fits(const SampleShape& s) {
  constexpr int kMaxTiles = 8192;
  return SampleTiles::of(s).count <= kMaxTiles;
}

// dvalue = for every cell the sum over the points around it of their weight times dy. Neither is empty.
template <class T, class Source>
void scatter_samples(const Source& source, const SampleShape& s, const Tensor& dy, Tensor& dvalue) {
  SampleTiles t = SampleTiles::of(s);
  int64_t points = int64_t{s.Q} * s.K, part = int64_t{t.segments} * kTileValues * s.D;
  // Scratch memory is bounded by taking some images at a time.
  constexpr int64_t kScratchBytes = int64_t{512} << 20;
  int64_t image_bytes = s.M * (points * static_cast<int64_t>(sizeof(SampleRecord)) + part * 4);
  auto step = static_cast<int>(std::clamp<int64_t>(kScratchBytes / image_bytes, 1, s.N));
  int64_t heads = int64_t{step} * s.M;
  auto scratch = [](const Shape& shape, DType dtype) { return Tensor::empty(shape, dtype, Device::kCuda); };
  Tensor counts = scratch({heads, t.chunks, t.count}, DType::kI32);
  Tensor totals = scratch({heads, t.count}, DType::kI32);
  Tensor starts = scratch({heads, t.count + 1}, DType::kI32), segments = starts.empty_like();
  Tensor records = scratch({heads, points, 4}, DType::kI32), parts = scratch({heads, part}, DType::kF32);
  auto* list = reinterpret_cast<SampleRecord*>(records.data<int32_t>());
  size_t histogram = static_cast<size_t>(t.count) * sizeof(int);
  const T* g = dy.data<T>();
  bool packs = packs_fit<4>(g, s.D) && packs_fit<4>(dvalue.data<T>(), s.D);
  for (int n = 0; n < s.N; n += step) {
    int images = std::min(step, s.N - n);
    auto y = static_cast<unsigned>(images * s.M);
    dim3 chunks(static_cast<unsigned>(t.chunks), y);
    launch("count_samples", &count_samples<Source>, chunks, dim3(kWarp), histogram, source, s, t, n,
           counts.data<int32_t>());
    int64_t tiles = int64_t{images} * s.M * t.count;
    launch("scan_chunks", &scan_chunks<kGridThreads>, grid_of(tiles, kGridThreads), dim3(kGridThreads), 0,
           tiles, t.count, t.chunks, counts.data<int32_t>(), totals.data<int32_t>());
    launch("scan_tiles", &scan_tiles<kTileThreads>, dim3(y), dim3(kTileThreads), 0, totals.data<int32_t>(),
           t.count, starts.data<int32_t>(), segments.data<int32_t>());
    launch("place_samples", &place_samples<Source>, chunks, dim3(kWarp), histogram, source, s, t, n,
           counts.data<int32_t>(), starts.data<int32_t>(), list);
    auto add = [&]<int kPack>() {
      launch("add_tiles", &add_tiles<T, kPack>, dim3(static_cast<unsigned>(t.segments), y),
             dim3(kTileThreads), 0, s, t, n, list, starts.data<int32_t>(), segments.data<int32_t>(), g,
             parts.data<float>());
      int64_t count = int64_t{images} * s.levels.tokens * s.M * (s.D / kPack);
      launch("sum_tiles", &sum_tiles<T, kPack>, grid_of(count, kGridThreads), dim3(kGridThreads), 0, count, s,
             t, segments.data<int32_t>(), parts.data<float>(),
             dvalue.data<T>() + int64_t{n} * s.levels.tokens * s.M * s.D);
    };
    if (packs) {
      add.template operator()<4>();
    } else {
      add.template operator()<1>();
    }
  }
}

// The gradients of points where they are wanted, and dvalue where it is defined: without determinism the
// kernel of the points adds to it as well, by float atomics.
template <class T, class Source>
void samples_backward(const Source& source, const typename Source::Gradients& gradients, bool points_wanted,
                      const SampleShape& s, const Tensor& value, const Tensor& dy, Tensor& dvalue) {
  constexpr bool kExact = std::is_same_v<T, float>;
  Tensor unordered;
  if (dvalue.defined() && !execution().deterministic) {
    unordered = kExact ? dvalue : Tensor::empty(dvalue.shape(), DType::kF32, Device::kCuda);
    check(cudaMemsetAsync(unordered.raw(), 0, unordered.bytes(), stream()), "cudaMemsetAsync");
  }
  if (points_wanted || unordered.defined())
    launch_point_gradients<T>(source, gradients, s, value, dy, unordered);
  if (!unordered.defined() && dvalue.defined()) scatter_samples<T>(source, s, dy, dvalue);
  if (unordered.defined() && !kExact) kernels::copy(unordered, dvalue);
}

}  // namespace saccade::cuda
