// The gradient of the maps without float atomics: one owner sums every element in a fixed order, that of the
// queries and points.
//
//   1. Each level is divided into tiles of 8 x 8 cells, and a point belongs to the tile of its upper left
//      corner. count_samples counts, for every chunk of queries (one warp), its points per tile.
//   2. scan_chunks and scan_tiles turn the counts into positions: by tile, then by chunk.
//   3. place_samples writes the points (query, position, weight) to these positions. Inside a chunk a warp
//      takes them 32 at a time in order, and a lane's rank among those of the same tile is the number of them
//      before it, so the list of a tile is sorted by query and point: a stable counting sort.
//   4. add_tiles gives a block a segment of a tile's list. The block sorts it by cell in shared memory, again
//      stably; then the points of each cell are read once, by kTileLanes threads that hold the channels and
//      four sums, one for each corner. One corner after another, these are added to the 9 x 9 cells that the
//      points touch: two cells never add to the same sum at the same time, so nothing is atomic.
//   5. sum_tiles adds, for each cell of the maps, the segments of its tile and of the tiles whose last row or
//      column it is.
#pragma once

#include "core/kernels/common/sample_gather_cuda.h"
#include "core/kernels/common/sample_tiles_cuda.h"
#include "core/kernels/copy/copy.h"
#include "core/tensor/execution.h"

namespace saccade::cuda {

// parts [images * M, segments, 81, D]. Grid: (segments, heads of images). kPack channels per thread, 4 or 1.
// Long, since its two halves, sorting the segment and summing it, share the block's shared memory.
template <class T, int kPack>
__global__ void __launch_bounds__(kTileThreads)
    add_tiles(SampleShape s, SampleTiles t, int first_image, const SampleRecord* __restrict__ records,
              const int* __restrict__ starts, const int* __restrict__ segments, const T* __restrict__ dy,
              float* __restrict__ parts) {
  constexpr int kChannels = kTileLanes * kPack, kGroups = kTileThreads / kTileLanes;
  SACCADE_SHARED(SampleRecord, list, kSegment);  // by cell, with positions relative to it
  SACCADE_SHARED(uint8_t, cells, kSegment);
  SACCADE_SHARED(int, places, kTileCells* kTileWarps);  // by cell, then by warp
  SACCADE_SHARED(int, scratch, kTileWarps);
  SACCADE_SHARED(float, tile_sums, kTileValues* kChannels);
  int64_t head = blockIdx.y;
  int n = first_image + static_cast<int>(blockIdx.y) / s.M, m = static_cast<int>(blockIdx.y) % s.M;
  int segment = static_cast<int>(blockIdx.x);
  const int* first = segments + head * (t.count + 1);
  if (segment >= first[t.count]) return;
  int tile = 0;
  for (int end = t.count; end - tile > 1;) {  // the last tile whose first segment is not after this one
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

  // A stable counting sort by cell; each warp has a separate part of the list and separate counters.
  int tid = static_cast<int>(threadIdx.x), lane = tid % kWarp, warp = tid / kWarp;
  for (int i = tid; i < kTileCells * kTileWarps; i += kTileThreads) places[i] = 0;
  records += head * s.Q * s.K + begin;
  int per_warp = (count + kTileThreads - 1) / kTileThreads * kWarp;  // points per warp
  int i_end = (warp + 1) * per_warp < count ? (warp + 1) * per_warp : count;
  __syncthreads();
  for (int i0 = warp * per_warp; i0 < i_end; i0 += kWarp) {
    int i = i0 + lane, cell = -1;
    if (i < i_end) {
      SampleRecord r = records[i];
      cell = (static_cast<int>(std::floor(r.y)) + 1 - tile_y) * kTile + static_cast<int>(std::floor(r.x)) +
             1 - tile_x;
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
  for (int i0 = warp * per_warp; i0 < i_end; i0 += kWarp) {
    int i = i0 + lane, cell = i < i_end ? cells[i] : -1;
    unsigned same = __match_any_sync(kAllLanes, cell);
    int rank = __popc(same & ((1u << lane) - 1));
    int place = cell >= 0 ? places[cell * kTileWarps + warp] + rank : 0;
    __syncwarp();
    if (cell >= 0) {
      if (rank == 0) places[cell * kTileWarps + warp] = place + __popc(same);
      SampleRecord r = records[i];  // from the L1 cache this time
      r.x -= std::floor(r.x);
      r.y -= std::floor(r.y);
      list[place] = r;
    }
    __syncwarp();
  }

  // At this point the last counter of a cell is the end of its list.
  int sub = tid % kTileLanes, row_bytes = s.M * s.D * static_cast<int>(sizeof(T));
  for (int d0 = 0; d0 < s.D; d0 += kChannels) {
    int d = d0 + sub * kPack;
    bool mine = d < s.D;
    const char* gradient =
        reinterpret_cast<const char*>(keep_address(dy + s.row(n, 0, m).row * s.D + (mine ? d : 0)));
    for (int i = tid; i < kTileValues * kChannels; i += kTileThreads) tile_sums[i] = 0;
    __syncthreads();
    for (int cell = tid / kTileLanes; cell < kTileCells; cell += kGroups) {
      int i = cell > 0 ? places[cell * kTileWarps - 1] : 0, end = places[cell * kTileWarps + kTileWarps - 1];
      bool some = mine && i < end;
      float sum[4][kPack] = {};
      if (some) {
#pragma unroll 4
        for (; i < end; ++i) {
          SampleRecord r = list[i];
          float below = r.weight * r.y, above = r.weight - below;
          float w[4] = {math::fma(-above, r.x, above), above * r.x, math::fma(-below, r.x, below),
                        below * r.x};
          float g[kPack];
          load_floats<kPack>(reinterpret_cast<const T*>(gradient + static_cast<int64_t>(r.query) * row_bytes),
                             g);
#pragma unroll
          for (int c = 0; c < 4; ++c)
#pragma unroll
            for (int e = 0; e < kPack; ++e) sum[c][e] = math::fma(w[c], g[e], sum[c][e]);
        }
      }
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (some) {
          float* out = tile_sums + ((cell / kTile + c / 2) * kTileSide + cell % kTile + c % 2) * kChannels +
                       sub * kPack;
          auto before_it = load_pack<kPack>(out);
#pragma unroll
          for (int e = 0; e < kPack; ++e) before_it.x[e] += sum[c][e];
          store_pack(out, before_it);
        }
        __syncthreads();
      }
    }
    float* out = parts + (head * t.segments + segment) * kTileValues * s.D + d;
    for (int v = tid / kTileLanes; mine && v < kTileValues; v += kGroups)
      store_pack(out + v * s.D, load_pack<kPack>(tile_sums + v * kChannels + sub * kPack));
    __syncthreads();
  }
}

// dvalue [images, S, M, D] from the parts; a thread has kPack channels of a cell. Grid: (blocks of threads,
// heads of images).
template <class T, int kPack>
__global__ void __launch_bounds__(kGridThreads)
    sum_tiles(SampleShape s, SampleTiles t, const int* __restrict__ segments, const float* __restrict__ parts,
              T* __restrict__ dvalue) {
  unsigned i = blockIdx.x * kGridThreads + threadIdx.x;
  unsigned per_row = static_cast<unsigned>(s.D / kPack), token = i / per_row;
  if (token >= static_cast<unsigned>(s.levels.tokens)) return;
  int d = static_cast<int>(i - token * per_row) * kPack, cell = static_cast<int>(token);
  int64_t head = blockIdx.y;
  int level = s.levels.count - 1;
  while (cell < s.levels.start[level]) --level;
  cell -= s.levels.start[level];
  // The cell's position as the lower right corner of a point.
  int y = cell / s.levels.width[level], x = cell - y * s.levels.width[level] + 1;
  ++y;
  const int* first = segments + head * (t.count + 1);
  float sum[kPack] = {};
  for (int c = 0; c < 4; ++c) {
    bool left = (c & 1) == 0,
         above = (c >> 1) == 0;  // the previous tile, whose last column or row holds the cell
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
  int image = static_cast<int>(blockIdx.y) / s.M, m = static_cast<int>(blockIdx.y) - image * s.M;
  store_pack(dvalue + s.map(image, m) + static_cast<int64_t>(token) * s.M * s.D + d, out);
}

// Returns whether scatter_samples supports the shape: a warp counts all tiles in shared memory.
inline bool scatter_fits(const SampleShape& s) {
  constexpr int kMaxTiles = 8192;
  return SampleTiles::of(s).count <= kMaxTiles;
}

// dvalue = for every cell the sum over the points around it of their weight times dy. Neither is empty.
template <class T, class Source>
void scatter_samples(const Source& source, const SampleShape& s, const Tensor& dy, Tensor& dvalue) {
  SampleTiles t = SampleTiles::of(s);
  int64_t points = int64_t{s.Q} * s.K, part = int64_t{t.segments} * kTileValues * s.D;
  // Processing a few images at a time bounds the scratch memory.
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
    const int y = images * s.M;
    launch("count_samples", &count_samples<Source>, {{t.chunks, y}, kWarp, histogram}, source, s, t, n,
           counts.data<int32_t>());
    launch("scan_chunks", &scan_chunks<kScanRuns * kWarp>, {{ceil_div(t.count, kWarp), y}, kScanRuns * kWarp},
           t.count, t.chunks, counts.data<int32_t>(), totals.data<int32_t>());
    launch("scan_tiles", &scan_tiles<kTileThreads>, {y, kTileThreads}, totals.data<int32_t>(), t.count,
           starts.data<int32_t>(), segments.data<int32_t>());
    launch("place_samples", &place_samples<Source>, {{t.chunks, y}, kWarp, histogram}, source, s, t, n,
           counts.data<int32_t>(), starts.data<int32_t>(), list);
    with_packs<4>(packs, [&]<int kPack>() {
      launch("add_tiles", &add_tiles<T, kPack>, {{t.segments, y}, kTileThreads}, s, t, n, list,
             starts.data<int32_t>(), segments.data<int32_t>(), g, parts.data<float>());
      int64_t threads = int64_t{s.levels.tokens} * (s.D / kPack);
      launch("sum_tiles", &sum_tiles<T, kPack>, {{ceil_div(threads, kGridThreads), y}, kGridThreads}, s, t,
             segments.data<int32_t>(), parts.data<float>(),
             dvalue.data<T>() + int64_t{n} * s.levels.tokens * s.M * s.D);
    });
  }
}

// Computes the gradients of points, if wanted, by points(unordered), and dvalue if it is defined. Without
// determinism `points` also adds dvalue, by float atomics, to `unordered`, which is undefined otherwise.
template <class T, class Source, class Points>
void samples_backward(const Source& source, bool points_wanted, const SampleShape& s, const Tensor& dy,
                      Tensor& dvalue, const Points& points) {
  constexpr bool kExact = std::is_same_v<T, float>;
  Tensor unordered;
  if (dvalue.defined() && !execution().deterministic) {
    unordered = kExact ? dvalue : Tensor::empty(dvalue.shape(), DType::kF32, Device::kCuda);
    check(cudaMemsetAsync(unordered.raw(), 0, unordered.bytes(), stream()), "cudaMemsetAsync");
  }
  if (points_wanted || unordered.defined()) points(unordered);
  if (!unordered.defined() && dvalue.defined()) scatter_samples<T>(source, s, dy, dvalue);
  if (unordered.defined() && !kExact) kernels::copy(unordered, dvalue);
}

}  // namespace saccade::cuda
