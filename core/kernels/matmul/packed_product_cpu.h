// The sums of a matrix product whose factors may have any layout: c = act(a b + bias) + shift. After Goto and
// van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): a block of b is packed into
// panels as wide as a register tile, over which all rows of a thread then pass. Every element is summed over
// k in the same way, however the work is divided.
#pragma once

#include "core/kernels/common/small_gemm_cpu.h"
#include "core/runtime/parallel.h"
#include "core/tensor/integers.h"
#include "core/tensor/tensor.h"

namespace saccade::cpu {

inline constexpr int64_t kPanel = kTileVectors * kLanes;  // columns of a register tile
inline constexpr int64_t kPackColumns = 256,
                         kPackDepth = 256;              // of b at a time: half of a second-level cache
inline constexpr int64_t kPackRows = 16 * kTileRows;    // of a at a time
inline constexpr int64_t kPackSumRows = 8 * kPackRows;  // whose sums wait for the next part of K
static_assert(kPackColumns % kPanel == 0);

// Rows of a in the layout that the product reads.
struct LeftRows {
  const float* data;
  int64_t row, column, tile;  // strides; `tile`: that of kTileRows rows
};

// A has  LeftRows rows(row, count, k, depth, scratch [kPackRows * kPackDepth]): rows
//        [row, row + count) of columns [k, k + depth).
// B has  panels(k, depth, first, width, out): panels [depth, kPanel] of rows [k, k + depth) and columns
//        [first, first + width), the last one padded with zeros; and place(), which differs between
//        different matrices of a batch.
template <class A, class B, class C>
struct PackedProduct {
  A a;
  B b;
  C* c;  // [m, n]
  int64_t m, n, k;
  const float* bias = nullptr;  // [n]
  bool relu = false;
  float shift = 0;
};

namespace packed {

// The part of a product that passes through a register tile.
struct Part {
  int64_t row, rows, column, depth;
  bool first, last;  // of K: nothing was summed before; the sum goes to c
};

// Multiplies the tile's rows by a panel. Missing rows repeat the last one. Unless this part is the last, the
// sums are kept in `sums` [kTileRows, kPackColumns].
template <class P>
void multiply(const P& p, const Part& part, const LeftRows& left, const float* panel, float* sums) {
  const float* a[kTileRows];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) a[i] = left.data + std::min<int64_t>(i, part.rows - 1) * left.row;
  if (part.last)
    for (int64_t i = 0; i < part.rows; ++i) __builtin_prefetch(p.c + (part.row + i) * p.n + part.column, 1);
  Floats sum[kTileRows][kTileVectors];
  sum_tile(part.depth, a, left.column, panel, kPanel, sum);
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kTileVectors; ++j) {
      const int64_t column = part.column + j * kLanes, some = p.n - column;
      float* before = sums + i * kPackColumns + j * kLanes;
      Floats v = sum[i][j];
      if (!part.first) v += load(before);  // a sum of sums has less rounding error
      if (!part.last) {
        store(before, v);
      } else if (i < part.rows && some > 0) {
        if (p.bias) v += load_some(p.bias + column, some);
        if (p.relu) v = select(v < broadcast(0.0f), Floats{}, v);
        if (p.shift != 0) v += broadcast(p.shift);
        store_some(p.c + (part.row + i) * p.n + column, v, some);
      }
    }
}

// A thread's memory, and which block of b its panels hold.
struct Scratch {
  Tensor right = Tensor::empty({kPackDepth * kPackColumns}), left = Tensor::empty({kPackRows * kPackDepth});
  Tensor sums = Tensor::empty({kPackSumRows * kPackColumns});
  const void* place = nullptr;
  int64_t k = -1, first = -1;
};

// Computes rows [begin, end) and columns [first, first + width), at most kPackSumRows and kPackColumns.
template <class P>
void block(const P& p, int64_t begin, int64_t end, int64_t first, int64_t width, Scratch& scratch) {
  float* panels = scratch.right.data<float>();
  for (int64_t k = 0; k < p.k; k += kPackDepth) {
    const int64_t depth = std::min(kPackDepth, p.k - k);
    if (scratch.place != p.b.place() || scratch.k != k || scratch.first != first) {
      p.b.panels(k, depth, first, width, panels);
      scratch.place = p.b.place();
      scratch.k = k;
      scratch.first = first;
    }
    for (int64_t row = begin; row < end; row += kPackRows) {
      const int64_t rows = std::min(kPackRows, end - row);
      const LeftRows left = p.a.rows(row, rows, k, depth, scratch.left.data<float>());
      float* sums = scratch.sums.data<float>() + (row - begin) * kPackColumns;
      for (int64_t j = 0; j < width; j += kPanel)
        for (int64_t i = 0; i < rows; i += kTileRows) {
          const Part part{row + i,         std::min<int64_t>(kTileRows, rows - i), first + j, depth, k == 0,
                          k + depth == p.k};
          const LeftRows tile{left.data + i / kTileRows * left.tile, left.row, left.column, left.tile};
          multiply(p, part, tile, panels + j * depth, sums + i * kPackColumns + j);
        }
    }
  }
}

}  // namespace packed

// Computes `batch` products of one size; make(i) returns the i-th, a PackedProduct.
template <class Make>
void run_packed(int64_t batch, const Make& make) {
  constexpr int64_t kUnitRows = 2 * kTileRows;  // the unit that threads share
  constexpr int64_t kWork = 1 << 19;            // products that justify another thread
  const auto whole = make(0);
  const int64_t row_units = ceil_div(whole.m, kUnitRows), columns = ceil_div(whole.n, kPackColumns);
  const int64_t unit_work = kUnitRows * std::min(whole.n, kPackColumns) * whole.k;
  parallel_for(batch * columns * row_units, std::max<int64_t>(1, kWork / unit_work),
               [&](int64_t begin, int64_t end) {
                 packed::Scratch scratch;
                 while (begin < end) {
                   const int64_t unit = begin % row_units, first = begin / row_units % columns * kPackColumns;
                   const int64_t units = std::min({end - begin, row_units - unit, kPackSumRows / kUnitRows});
                   const auto p = make(begin / row_units / columns);
                   packed::block(p, unit * kUnitRows, std::min(p.m, (unit + units) * kUnitRows), first,
                                 std::min(kPackColumns, p.n - first), scratch);
                   begin += units;
                 }
               });
}

// A matrix with any strides, f32 or bf16, as either factor.
template <class T>
struct PackedMatrix {
  const T* data;
  int64_t row, column;  // strides
  const T* at(int64_t i, int64_t j) const { return data + i * row + j * column; }
  const void* place() const { return data; }

  // Returns the rows in place if they are f32 and contiguous along k, otherwise a copy.
  LeftRows rows(int64_t first, int64_t count, int64_t k, int64_t depth, float* out) const {
    if constexpr (std::is_same_v<T, float>) {
      if (column == 1) return {at(first, k), row, 1, row * kTileRows};
    }
    if (column == 1) {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < depth; j += kLanes)
          store(out + i * kPackDepth + j, load_some(at(first + i, k + j), depth - j));
      return {out, kPackDepth, 1, kPackDepth * kTileRows};
    }
    for (int64_t tile = 0; tile < count; tile += kTileRows) {
      const int64_t last = std::min<int64_t>(kTileRows, count - tile) - 1;
      float* to = out + tile * kPackDepth;
      if constexpr (std::is_same_v<T, float>) {
        // Eight at a time: those beyond the tile's rows are overwritten later.
        static_assert(kTileRows <= 8);
        if (row == 1 && tile + 8 <= count) {
          for (int64_t j = 0; j < depth; ++j, to += kTileRows)
            std::memcpy(to, at(first + tile, k + j), 8 * sizeof(float));
          continue;
        }
      }
      for (int64_t j = 0; j < depth; ++j, to += kTileRows)
#pragma GCC unroll 8
        for (int64_t i = 0; i < kTileRows; ++i)
          to[i] = static_cast<float>(*at(first + tile + std::min(i, last), k + j));
    }
    return {out, 1, kTileRows, kPackDepth * kTileRows};
  }

  void panels(int64_t k, int64_t depth, int64_t first, int64_t width, float* out) const {
    for (int64_t j = 0; j < width; j += kPanel, out += depth * kPanel) {
      const int64_t some = std::min(kPanel, width - j);
      if (column == 1) {
        for (int64_t i = 0; i < depth; ++i)
          for (int64_t lane = 0; lane < kPanel; lane += kLanes)
            store(out + i * kPanel + lane,
                  load_some(at(k + i, first + j + std::min(lane, some)), std::max<int64_t>(some - lane, 0)));
      } else {
        int64_t lane = 0;
        if constexpr (std::is_same_v<T, float>) {
          if (row == 1)
            for (; lane + 4 <= some; lane += 4) turn(at(k, first + j + lane), depth, out + lane);
        }
        for (; lane < kPanel; ++lane)
          for (int64_t i = 0; i < depth; ++i)
            out[i * kPanel + lane] = lane < some ? static_cast<float>(*at(k + i, first + j + lane)) : 0.0f;
      }
    }
  }

 private:
  // Transposes four columns, which are rows in memory, into a panel's.
  void turn(const float* from, int64_t depth, float* to) const {
    using Four = float __attribute__((vector_size(16)));
    int64_t i = 0;
    for (; i + 4 <= depth; i += 4, from += 4) {
      Four a, b, c, d;
      std::memcpy(&a, from, sizeof a);
      std::memcpy(&b, from + column, sizeof b);
      std::memcpy(&c, from + 2 * column, sizeof c);
      std::memcpy(&d, from + 3 * column, sizeof d);
      const Four low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                 high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Four low2 = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                 high2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      const Four rows[] = {
          __builtin_shufflevector(low, low2, 0, 1, 4, 5), __builtin_shufflevector(low, low2, 2, 3, 6, 7),
          __builtin_shufflevector(high, high2, 0, 1, 4, 5), __builtin_shufflevector(high, high2, 2, 3, 6, 7)};
      for (int64_t r = 0; r < 4; ++r) std::memcpy(to + (i + r) * kPanel, &rows[r], sizeof rows[r]);
    }
    for (; i < depth; ++i, ++from)
      for (int64_t r = 0; r < 4; ++r) to[i * kPanel + r] = from[r * column];
  }
};

}  // namespace saccade::cpu
