// After Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): a block of b is packed into panels as
// wide as a register tile, which all rows of a thread then pass.
#include "core/kernels/matmul/packed_gemm_cpu.h"

#include "core/kernels/common/small_gemm_cpu.h"
#include "core/runtime/kernel.h"
#include "core/runtime/parallel.h"

namespace saccade::cpu {
namespace {

constexpr int64_t kPanel = kTileVectors * kLanes;  // columns of a register tile
constexpr int64_t kColumns = 256, kDepth = 256;    // of b at a time: half of a second-level cache
constexpr int64_t kBlockRows = 16 * kTileRows;     // of a at a time
constexpr int64_t kSumRows = 8 * kBlockRows;       // whose sums wait for the next part of K
constexpr int64_t kUnitRows = 2 * kTileRows;       // what threads share out
constexpr int64_t kWork = 1 << 19;                 // products that are worth another thread

static_assert(kColumns % kPanel == 0);

// Part of a matrix: rows and columns are strides.
template <class T>
struct View {
  const T* data;
  int64_t row, column;
  View at(int64_t i, int64_t j) const { return {data + i * row + j * column, row, column}; }
};

// Panels [depth, kPanel] of b [depth, width], the last one filled up with zeros.
template <class T>
void pack_right(View<T> b, int64_t depth, int64_t width, float* out) {
  for (int64_t j = 0; j < width; j += kPanel, out += depth * kPanel) {
    const int64_t some = std::min(kPanel, width - j);
    if (b.column == 1) {
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t lane = 0; lane < kPanel; lane += kLanes)
          store(out + k * kPanel + lane,
                load_some(b.at(k, j + std::min(lane, some)).data, std::max<int64_t>(some - lane, 0)));
    } else {
      for (int64_t lane = 0; lane < kPanel; ++lane)
        for (int64_t k = 0; k < depth; ++k)
          out[k * kPanel + lane] = lane < some ? static_cast<float>(*b.at(k, j + lane).data) : 0.0f;
    }
  }
}

// How the product reads rows of a: where they lie if they are f32 and run along k, else as a copy.
struct Left {
  const float* data;
  int64_t row, column, tile;  // strides, of kTileRows rows too
  Left from(int64_t i) const { return {data + i * tile, row, column, tile}; }
};
template <class T>
Left left_rows(View<T> a, int64_t rows, int64_t depth, float* out) {
  if constexpr (std::is_same_v<T, float>) {
    if (a.column == 1) return {a.data, a.row, 1, a.row * kTileRows};
  }
  if (a.column == 1) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < depth; k += kLanes)
        store(out + i * kDepth + k, load_some(a.at(i, k).data, depth - k));
    return {out, kDepth, 1, kDepth * kTileRows};
  }
  for (int64_t tile = 0; tile < rows; tile += kTileRows) {
    const int64_t last = std::min<int64_t>(kTileRows, rows - tile) - 1;
    float* to = out + tile * kDepth;
    for (int64_t k = 0; k < depth; ++k, to += kTileRows)
#pragma GCC unroll 8
      for (int64_t i = 0; i < kTileRows; ++i)
        to[i] = static_cast<float>(*a.at(tile + std::min(i, last), k).data);
  }
  return {out, 1, kTileRows, kDepth * kTileRows};
}

// One product of a batch, as a thread sees it.
template <class T, class C>
struct Product {
  View<T> a, b;
  C* c;
  int64_t n, k;
  const float* bias;
  bool relu;
};

// What of a product is on its way through a register tile.
struct Part {
  int64_t row, rows, column, depth;
  bool first, last;  // of K: nothing was summed before; the sum goes to c
};

// The tile's rows of `left` times a panel. Missing rows are the last one again. Unless it is last, `sums` [kTileRows, kColumns] keeps it.
template <class T, class C>
void multiply(const Product<T, C>& p, const Part& part, const Left& left, const float* panel, float* sums) {
  const float* a[kTileRows];
  Floats sum[kTileRows][kTileVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
    a[i] = left.data + std::min<int64_t>(i, part.rows - 1) * left.row;
#pragma GCC unroll 4
    for (int j = 0; j < kTileVectors; ++j) sum[i][j] = Floats{};
  }
  for (int64_t k = 0, at = 0; k < part.depth; ++k, at += left.column) {
    Floats x[kTileVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kTileVectors; ++j) x[j] = load(panel + k * kPanel + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
      const Floats f = broadcast(a[i][at]);
#pragma GCC unroll 4
      for (int j = 0; j < kTileVectors; ++j) sum[i][j] += f * x[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kTileVectors; ++j) {
      const int64_t column = part.column + j * kLanes, some = p.n - column;
      Floats v = sum[i][j];
      if (!part.first) v += load(sums + i * kColumns + j * kLanes);  // a sum of sums rounds less
      if (!part.last) {
        store(sums + i * kColumns + j * kLanes, v);
      } else if (i < part.rows && some > 0) {
        if (p.bias) v += load_some(p.bias + column, some);
        if (p.relu) v = select(v < broadcast(0.0f), Floats{}, v);
        store_some(p.c + (part.row + i) * p.n + column, v, some);
      }
    }
}

// A thread's own memory.
struct Scratch {
  Tensor right = Tensor::empty({kDepth * kColumns}), left = Tensor::empty({kBlockRows * kDepth});
  Tensor sums = Tensor::empty({kSumRows * kColumns});
  const void* packed = nullptr;  // the block of b that `right` holds, and its size
  int64_t depth = 0, width = 0;
};

// Rows [begin, end) and columns [first, first + width), at most kSumRows and kColumns.
template <class T, class C>
void block(const Product<T, C>& p, int64_t begin, int64_t end, int64_t first, int64_t width,
           Scratch& scratch) {
  for (int64_t k = 0; k < p.k; k += kDepth) {
    const int64_t depth = std::min(kDepth, p.k - k);
    const View<T> right = p.b.at(k, first);
    float* packed = scratch.right.data<float>();
    if (scratch.packed != right.data || scratch.depth != depth || scratch.width != width) {
      pack_right(right, depth, width, packed);
      scratch.packed = right.data;
      scratch.depth = depth;
      scratch.width = width;
    }
    for (int64_t row = begin; row < end; row += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, end - row);
      const Left left = left_rows(p.a.at(row, k), rows, depth, scratch.left.data<float>());
      float* sums = scratch.sums.data<float>() + (row - begin) * kColumns;
      for (int64_t j = 0; j < width; j += kPanel)
        for (int64_t i = 0; i < rows; i += kTileRows)
          multiply(
              p,
              {row + i, std::min<int64_t>(kTileRows, rows - i), first + j, depth, k == 0, k + depth == p.k},
              left.from(i / kTileRows), packed + j * depth, sums + i * kColumns + j);
    }
  }
}

template <class T, class C>
void product(const Tensor& a, const Tensor& b, Tensor& c, const Tensor& bias, Activation act) {
  const int64_t batch = c.dim(0), m = c.dim(1), n = c.dim(2), k = a.dim(2);
  const int64_t row_units = ceil_div(m, kUnitRows), columns = ceil_div(n, kColumns);
  const int64_t unit_work = kUnitRows * std::min(n, kColumns) * k;
  parallel_for(
      batch * columns * row_units, std::max<int64_t>(1, kWork / unit_work), [&](int64_t begin, int64_t end) {
        Scratch scratch;
        while (begin < end) {
          const int64_t unit = begin % row_units, first = begin / row_units % columns * kColumns,
                        i = begin / row_units / columns;
          const int64_t units = std::min({end - begin, row_units - unit, kSumRows / kUnitRows});
          const Product<T, C> p{
              {a.data<T>() + (a.dim(0) == 1 ? 0 : i * a.strides()[0]), a.strides()[1], a.strides()[2]},
              {b.data<T>() + (b.dim(0) == 1 ? 0 : i * b.strides()[0]), b.strides()[1], b.strides()[2]},
              c.data<C>() + i * m * n,
              n,
              k,
              data_or_null<float>(bias),
              act == Activation::kRelu};
          block(p, unit * kUnitRows, std::min(m, (unit + units) * kUnitRows), first,
                std::min(kColumns, n - first), scratch);
          begin += units;
        }
      });
}

}  // namespace

void packed_gemm(const Tensor& a, const Tensor& b, Tensor& c, const Tensor& bias, Activation act) {
  dispatch_dtype<float, bf16>(a.dtype(), "packed_gemm", [&]<class T>() {
    if (c.dtype() == a.dtype())
      product<T, T>(a, b, c, bias, act);
    else
      product<T, float>(a, b, c, bias, act);
  });
}

}  // namespace saccade::cpu
