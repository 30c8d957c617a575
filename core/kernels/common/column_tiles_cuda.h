// Kernels over the columns of row-major matrices [batch, rows, columns]: the assignment of threads, and sums
// of columns: every block sums a run of rows, and the last block of a tile adds up the runs. The order
// depends only on the shape.
#pragma once

#include "core/runtime/cuda/block.h"
#include "core/runtime/cuda/tickets.h"
#include "core/tensor/tensor.h"

namespace saccade::cuda {

constexpr int kColumnThreads = 256;
constexpr int64_t kSumBlocks = 1024;      // for sums that a second kernel joins: each leaves a row of sums
constexpr int64_t kTicketBlocks = 384;    // for sums that their last block joins: three per multiprocessor
constexpr int64_t kApplyBlocks = 4096;    // for kernels that keep nothing
constexpr int64_t kMaxRowsAtOnce = 1024;  // up to this many, one block sums a whole column

// A thread's columns and rows.
struct ColumnPosition {
  int64_t batch, run, column, row, end;
  int lane, level;  // within the block: horizontally, vertically
};

// A block owns a run of rows of a tile of `lanes` packs of neighbouring columns: a level of threads reads one
// row's part of the tile, coalesced, and the levels take turns with the rows.
struct ColumnTiles {
  int64_t batch, rows, columns, run, runs, tiles;
  int lanes, pack;

  // About `blocks` blocks in total, with at least four rows per thread.
  ColumnTiles(int64_t batch_, int64_t rows_, int64_t columns_, int pack_, int64_t blocks = kSumBlocks)
      : batch(batch_), rows(rows_), columns(columns_), lanes(1), pack(pack_) {
    int64_t packs = ceil_div(columns, pack);
    while (lanes < kWarp && lanes < packs) lanes *= 2;
    tiles = ceil_div(packs, lanes);
    int64_t wanted = std::max<int64_t>(1, blocks / std::max<int64_t>(1, tiles * batch));
    run = std::max<int64_t>(ceil_div(rows, wanted), 4 * (kColumnThreads / lanes));
    runs = ceil_div(rows, run);
  }
  // The same matrices with all rows in one run and therefore more levels of threads.
  ColumnTiles in_one_run() const {
    constexpr int kLanes = 8;
    ColumnTiles t = *this;
    t.lanes = std::min(lanes, kLanes);
    t.tiles = ceil_div(ceil_div(columns, pack), t.lanes);
    t.run = rows, t.runs = 1;
    return t;
  }
  int64_t blocks() const { return batch * tiles * runs; }
  __device__ int levels() const { return kColumnThreads / lanes; }
  __device__ ColumnPosition position() const {
    int thread = static_cast<int>(threadIdx.x);
    ColumnPosition p;
    p.lane = thread % lanes, p.level = thread / lanes;
    // 32-bit divisions: each 64-bit division is a function call.
    const unsigned n_tiles = static_cast<unsigned>(tiles), n_runs = static_cast<unsigned>(runs);
    const unsigned tile = blockIdx.x % n_tiles, rest = blockIdx.x / n_tiles;
    p.column = (int64_t{tile} * lanes + p.lane) * pack;
    p.run = rest % n_runs, p.batch = rest / n_runs;
    p.row = p.run * run + p.level;
    p.end = (p.run + 1) * run < rows ? (p.run + 1) * run : rows;
    if (p.column >= columns) p.row = p.end;  // no columns, so no rows
    return p;
  }
};

// The sums over the levels of a block, in the threads of level 0. shared: kPack floats per thread.
template <int kPack>
__device__ __forceinline__ void sum_levels(const ColumnTiles& t, const ColumnPosition& p, float (&sum)[kPack],
                                           float* shared) {
  int thread = static_cast<int>(threadIdx.x);
  for (int j = 0; j < kPack; ++j) shared[j * kColumnThreads + thread] = sum[j];
  for (int half = t.levels() / 2; half > 0; half /= 2) {
    __syncthreads();
    if (p.level < half)
      for (int j = 0; j < kPack; ++j)
        shared[j * kColumnThreads + thread] += shared[j * kColumnThreads + thread + half * t.lanes];
  }
  for (int j = 0; j < kPack; ++j) sum[j] = shared[j * kColumnThreads + thread];
  __syncthreads();
}

// first[b, c] and second[b, c] (s = 0 and 1, either may be null) = scale times the sum over the rows of what
// values.at(batch, column)(row, sum) adds to sum[s], for kPack columns at once. With more than one run, the
// runs write partial[s, b, run, c], and the last block of a tile to arrive adds them up. Without packs, five
// blocks per multiprocessor suffice: for more, the compiler would spill registers.
template <int kPack, int kSums, class Out, class Values>
__global__ void __launch_bounds__(kColumnThreads, kPack == 1 ? 5 : 0)
    column_sums(ColumnTiles t, Values values, float* partial, unsigned* arrived, double scale, Out* first,
                Out* second) {
  SACCADE_SHARED(float, shared, kColumnThreads* kPack);
  ColumnPosition p = t.position();
  const int levels = t.levels();
  const bool mine = p.level == 0 && p.column < t.columns;
  float sum[kSums][kPack] = {};
  if (p.row < p.end) {
    auto column = values.at(p.batch, p.column);
#pragma unroll(kPack* kSums > 8 ? 2 : 4)  // more would spill registers
    for (int64_t r = p.row; r < p.end; r += levels) column(r, sum);
  }
  if (partial) {
    auto at = [&](int s, int64_t run) {
      return partial + ((s * t.batch + p.batch) * t.runs + run) * t.columns + p.column;
    };
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      sum_levels(t, p, sum[s], shared);
      if (!mine) continue;
      Pack<float, kPack> out;
      for (int j = 0; j < kPack; ++j) out.x[j] = sum[s][j];
      store_wide<kPack>(at(s, p.run), out);
    }
    if (!is_last_block(arrived + p.batch * t.tiles + blockIdx.x % t.tiles, static_cast<unsigned>(t.runs)))
      return;
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      for (int j = 0; j < kPack; ++j) sum[s][j] = 0;
      const int64_t end = p.column < t.columns ? t.runs : 0;
#pragma unroll 8
      for (int64_t run = p.level; run < end; run += levels) {
        auto part = load_wide<kPack>(at(s, run));
        for (int j = 0; j < kPack; ++j) sum[s][j] += part.x[j];
      }
    }
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    sum_levels(t, p, sum[s], shared);
    Out* result = s == 0 ? first : second;
    if (!mine || !result) continue;
    for (int j = 0; j < kPack; ++j)
      result[p.batch * t.columns + p.column + j] = static_cast<Out>(scale * static_cast<double>(sum[s][j]));
  }
}

// Sums the runs of partial [count, runs, columns], times scale, in f64: a warp's lanes cover neighbouring
// columns, and the warps take turns with the runs. The first `split` results go to `first`, the others to
// `second`; either may be null.
template <class Out>
__global__ void __launch_bounds__(kColumnThreads)
    join_columns(const float* partial, int64_t runs, int64_t columns, int64_t split, double scale, Out* first,
                 Out* second) {
  constexpr int kWarps = kColumnThreads / kWarp;
  SACCADE_SHARED(double, shared, kColumnThreads);
  int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  int64_t tiles = ceil_div(columns, kWarp), which = blockIdx.x / tiles;
  int64_t column = blockIdx.x % tiles * kWarp + lane;
  double sum = 0;
  if (column < columns) {
#pragma unroll 4
    for (int64_t j = warp; j < runs; j += kWarps)
      sum += static_cast<double>(partial[(which * runs + j) * columns + column]);
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (warp > 0 || column >= columns) return;
  for (int w = 1; w < kWarps; ++w) sum += shared[w * kWarp + lane];
  Out* out = which < split ? first : second;
  if (!out) return;
  if (which >= split) which -= split;
  out[which * columns + column] = static_cast<Out>(scale * sum);
}

template <class Out>
void launch_join_columns(const float* partial, int64_t count, int64_t runs, int64_t columns, int64_t split,
                         double scale, Out* first, Out* second) {
  launch("join_columns", &join_columns<Out>, {count * ceil_div(columns, kWarp), kColumnThreads}, partial,
         runs, columns, split, scale, first, second);
}

// first[b, c] (and second[b, c] if kSums == 2) = scale * the sums over the rows.
template <int kPack, int kSums, class Out, class Values>
void sum_columns(const ColumnTiles& tiles, const Values& values, double scale, Out* first,
                 Out* second = nullptr) {
  const ColumnTiles t = tiles.rows <= kMaxRowsAtOnce
                            ? tiles.in_one_run()
                            : ColumnTiles(tiles.batch, tiles.rows, tiles.columns, tiles.pack, kTicketBlocks);
  static_assert(kTicketBlocks <= kTickets, "a tile of more than one run has a counter");
  Tensor partial;
  if (t.runs > 1) partial = Tensor::empty({kSums, t.batch, t.runs, t.columns}, DType::kF32, Device::kCuda);
  launch("column_sums", &column_sums<kPack, kSums, Out, Values>, {t.blocks(), kColumnThreads}, t, values,
         data_or_null<float>(partial), t.runs > 1 ? tickets() : nullptr, scale, first, second);
}

}  // namespace saccade::cuda
