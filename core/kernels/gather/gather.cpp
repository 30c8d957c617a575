#include "core/kernels/gather/gather.h"

#include "core/kernels/copy/copy.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

template <class T>
struct GatherRow {
  const T* x;
  const int64_t* indices;
  T* y;
  int64_t rows, picks, columns;  // S, K, C
  SACCADE_HD void operator()(int64_t i) const {
    const T* p = x + (i / picks * rows + indices[i]) * columns;
    T* q = y + i * columns;
    for (int64_t c = 0; c < columns; ++c) q[c] = p[c];
  }
};

void gather_rows_generic(const Tensor& x, const Tensor& indices, Tensor& y) {
  if (y.numel() == 0) return;
  dispatch_any(x.dtype(), "gather_rows", [&]<class T>() {
    for_each(
        indices.numel(),
        GatherRow<T>{x.data<T>(), indices.data<int64_t>(), y.data<T>(), x.dim(1), indices.dim(1), x.dim(2)},
        x.dim(2));
  });
}

// Each call owns some columns of a sample and takes the picks in order: repeated indices need no atomics.
template <class T>
struct ScatterColumns {
  static constexpr int64_t kColumns = 64;
  const T* dy;
  const int64_t* indices;
  acc_t<T>* dx;
  int64_t rows, picks, columns, chunks;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t n = i / chunks, c0 = i % chunks * kColumns;
    int64_t width = columns - c0 < kColumns ? columns - c0 : kColumns;
    const T* g = dy + n * picks * columns + c0;
    acc_t<T>* d = dx + n * rows * columns + c0;
    for (int64_t k = 0; k < picks; ++k) {
      const T* from = g + k * columns;
      acc_t<T>* to = d + indices[n * picks + k] * columns;
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) to[c] += acc_t<T>(from[c]);
    }
  }
};

void scatter_add_rows_generic(const Tensor& dy, const Tensor& indices, Tensor& dx) {
  fill(dx, 0);
  if (dx.numel() == 0 || dy.numel() == 0) return;
  dispatch_float(dy.dtype(), "scatter_add_rows", [&]<class T>() {
    using Columns = ScatterColumns<T>;
    int64_t chunks = (dy.dim(2) + Columns::kColumns - 1) / Columns::kColumns;
    for_each(dy.dim(0) * chunks,
             Columns{dy.data<T>(), indices.data<int64_t>(), dx.data<acc_t<T>>(), dx.dim(1), dy.dim(1),
                     dy.dim(2), chunks},
             dy.dim(1) * std::min(dy.dim(2), Columns::kColumns));
  });
}

SACCADE_REGISTER_KERNEL(gather_rows, &gather_rows_generic);
SACCADE_REGISTER_KERNEL(scatter_add_rows, &scatter_add_rows_generic);

}  // namespace
}  // namespace saccade::kernels
