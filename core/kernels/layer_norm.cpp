#include "core/kernels/layer_norm.h"

#include <cmath>

#include "core/kernels/columns.h"

namespace saccade::kernels {
namespace {

// index = row; three passes over a row that stays in the cache
template <class T>
struct Forward {
  using A = acc_t<T>;
  const T *x, *residual;
  const A *weight, *bias;
  A eps;
  T *y, *sum;
  A *mean, *rstd;
  int64_t columns;
  SACCADE_HD void operator()(int64_t r) const {
    const T* px = x + r * columns;
    if (residual) {
      const T* pr = residual + r * columns;
      T* ps = sum + r * columns;
      for (int64_t c = 0; c < columns; ++c)
        ps[c] = static_cast<T>(static_cast<A>(px[c]) + static_cast<A>(pr[c]));
      px = ps;
    }
    A total = A(0), square = A(0);
#pragma omp simd reduction(+ : total)
    for (int64_t c = 0; c < columns; ++c) total += static_cast<A>(px[c]);
    A mu = total / static_cast<A>(columns);
#pragma omp simd reduction(+ : square)
    for (int64_t c = 0; c < columns; ++c) {
      A d = static_cast<A>(px[c]) - mu;
      square += d * d;
    }
    A inverse = A(1) / std::sqrt(square / static_cast<A>(columns) + eps);
    T* py = y + r * columns;
#pragma omp simd
    for (int64_t c = 0; c < columns; ++c)
      py[c] = static_cast<T>((static_cast<A>(px[c]) - mu) * inverse * weight[c] + bias[c]);
    mean[r] = mu;
    rstd[r] = inverse;
  }
};

// dx = rstd (w g - mean(w g) - xh mean(w g xh)), xh = (x - mean) rstd. index = row
template <class T>
struct Backward {
  using A = acc_t<T>;
  const T *dy, *x;
  const A *weight, *mean, *rstd;
  T* dx;
  int64_t columns;
  SACCADE_HD void operator()(int64_t r) const {
    const T *pd = dy + r * columns, *px = x + r * columns;
    A mu = mean[r], inverse = rstd[r], a = A(0), b = A(0);
#pragma omp simd reduction(+ : a, b)
    for (int64_t c = 0; c < columns; ++c) {
      A g = static_cast<A>(pd[c]) * weight[c];
      a += g;
      b += g * (static_cast<A>(px[c]) - mu);
    }
    A n = static_cast<A>(columns), constant = -inverse * (a / n),
      factor = -inverse * inverse * inverse * (b / n);
    T* out = dx + r * columns;
#pragma omp simd
    for (int64_t c = 0; c < columns; ++c)
      out[c] = static_cast<T>(inverse * (static_cast<A>(pd[c]) * weight[c]) +
                              factor * (static_cast<A>(px[c]) - mu) + constant);
  }
};

// Block sums of dy and dy xh; index = (row tile, column tile)
template <class T>
struct AffineSums {
  using A = acc_t<T>;
  const T *dy, *x;
  const A *mean, *rstd;
  A *weight_sum, *bias_sum;  // [row tiles, columns]
  int64_t rows, columns;

  template <bool Full>
  SACCADE_HD void tile(int64_t block, int64_t first, int64_t width) const {
    int64_t w = Full ? kTileColumns : width;
    int64_t end = (block + 1) * kTileRows < rows ? (block + 1) * kTileRows : rows;
    A dw[kTileColumns] = {}, db[kTileColumns] = {};
    for (int64_t r = block * kTileRows; r < end; ++r) {
      const T *pd = dy + r * columns + first, *px = x + r * columns + first;
      A mu = mean[r], inverse = rstd[r];
      for (int64_t c = 0; c < w; ++c) {
        A g = static_cast<A>(pd[c]);
        dw[c] += g * ((static_cast<A>(px[c]) - mu) * inverse);
        db[c] += g;
      }
    }
    for (int64_t c = 0; c < w; ++c) weight_sum[block * columns + first + c] = dw[c];
    for (int64_t c = 0; c < w; ++c) bias_sum[block * columns + first + c] = db[c];
  }
  SACCADE_HD void operator()(int64_t i) const {
    int64_t per = (columns + kTileColumns - 1) / kTileColumns, first = i % per * kTileColumns;
    if (columns - first >= kTileColumns)
      tile<true>(i / per, first, kTileColumns);
    else
      tile<false>(i / per, first, columns - first);
  }
};

void forward_generic(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                     double eps, Tensor& y, Tensor& sum, Tensor& mean, Tensor& rstd) {
  dispatch_float(x.dtype(), "layer_norm", [&]<class T>() {
    using A = acc_t<T>;
    bool add = residual.defined();
    Forward<T> f{x.data<T>(),
                 add ? residual.data<T>() : nullptr,
                 weight.data<A>(),
                 bias.data<A>(),
                 static_cast<A>(eps),
                 y.data<T>(),
                 add ? sum.data<T>() : nullptr,
                 mean.data<A>(),
                 rstd.data<A>(),
                 x.dim(1)};
    for_each(x.dim(0), f, x.dim(1) * 4);
  });
}

void backward_generic(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                      const Tensor& rstd, Tensor& dx, Tensor& dweight, Tensor& dbias) {
  dispatch_float(x.dtype(), "layer_norm", [&]<class T>() {
    using A = acc_t<T>;
    int64_t rows = x.dim(0), columns = x.dim(1);
    if (dx.defined()) {
      Backward<T> f{dy.data<T>(),   x.data<T>(),  weight.data<A>(), mean.data<A>(),
                    rstd.data<A>(), dx.data<T>(), columns};
      for_each(rows, f, columns * 4);
    }
    if (!dweight.defined() && !dbias.defined()) return;
    int64_t blocks = tile_rows(rows);
    Tensor partial = Tensor::empty({2, blocks * columns}, dtype_of<A>, x.device());
    A *p = partial.data<A>(), *q = p + blocks * columns;
    AffineSums<T> f{dy.data<T>(), x.data<T>(), mean.data<A>(), rstd.data<A>(), p, q, rows, columns};
    for_each(blocks * tile_columns(columns), f, kTileRows * kTileColumns * 2);
    if (dweight.defined()) sum_partials(p, dweight.data<A>(), 1, blocks, columns);
    if (dbias.defined()) sum_partials(q, dbias.data<A>(), 1, blocks, columns);
  });
}

SACCADE_REGISTER_KERNEL(layer_norm_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(layer_norm_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
