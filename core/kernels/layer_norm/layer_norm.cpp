#include "core/kernels/layer_norm/layer_norm.h"

#include <cmath>

#include "core/kernels/common/column_tiles.h"
#include "core/kernels/common/lane_reduce.h"
#include "core/kernels/copy/copy.h"
#include "core/kernels/random/random.h"

namespace saccade::kernels {
namespace {

// index = row; makes three passes over a row, which stays in the cache
template <class T>
struct LayerNormForward {
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
    A n = static_cast<A>(columns);
    A mu = lane_sum<A>(columns, [=](int64_t c) { return static_cast<A>(px[c]); }) / n;
    A square = lane_sum<A>(columns, [=](int64_t c) {
      A d = static_cast<A>(px[c]) - mu;
      return d * d;
    });
    A inverse = A(1) / std::sqrt(square / n + eps);
    T* py = y + r * columns;
    for (int64_t c = 0; c < columns; ++c)
      py[c] = static_cast<T>((static_cast<A>(px[c]) - mu) * inverse * weight[c] + bias[c]);
    mean[r] = mu;
    rstd[r] = inverse;
  }
};

// dx = rstd (w g - mean(w g) - xh mean(w g xh)), xh = (x - mean) rstd; and the block's sums of g xh and g.
// index = block of kTileRows rows
template <class T>
struct LayerNormBackward {
  using A = acc_t<T>;
  const T *dy, *x;
  const A *weight, *mean, *rstd;
  T* dx;                       // may be nullptr
  A *weight_sums, *bias_sums;  // [blocks, columns]; may be nullptr
  int64_t rows, columns;

  SACCADE_HD void input(int64_t r) const {
    const T *pd = dy + r * columns, *px = x + r * columns;
    const A *w = weight, mu = mean[r], inverse = rstd[r];
    A a = lane_sum<A>(columns, [=](int64_t c) { return static_cast<A>(pd[c]) * w[c]; });
    A b = lane_sum<A>(columns,
                      [=](int64_t c) { return static_cast<A>(pd[c]) * w[c] * (static_cast<A>(px[c]) - mu); });
    A n = static_cast<A>(columns), constant = -inverse * (a / n),
      factor = -inverse * inverse * inverse * (b / n);
    T* out = dx + r * columns;
    for (int64_t c = 0; c < columns; ++c) {
      A g = static_cast<A>(pd[c]) * w[c];
      out[c] = static_cast<T>(inverse * g + factor * (static_cast<A>(px[c]) - mu) + constant);
    }
  }
  SACCADE_HD void sums(int64_t r, A* pw, A* pb) const {
    const T *pd = dy + r * columns, *px = x + r * columns;
    A mu = mean[r], inverse = rstd[r];
    for (int64_t c = 0; c < columns; ++c) {
      A g = static_cast<A>(pd[c]);
      pw[c] += g * ((static_cast<A>(px[c]) - mu) * inverse);
      pb[c] += g;
    }
  }
  SACCADE_HD void operator()(int64_t block) const {
    int64_t end = (block + 1) * kTileRows < rows ? (block + 1) * kTileRows : rows;
    if (weight_sums)
      for (int64_t c = 0; c < columns; ++c)
        weight_sums[block * columns + c] = bias_sums[block * columns + c] = A(0);
    for (int64_t r = block * kTileRows; r < end; ++r) {
      if (dx) input(r);
      if (weight_sums) sums(r, weight_sums + block * columns, bias_sums + block * columns);
    }
  }
};

void forward_generic(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                     double eps, Tensor& y, Tensor& sum, Tensor& mean, Tensor& rstd) {
  dispatch_float(x.dtype(), "layer_norm", [&]<class T>() {
    using A = acc_t<T>;
    bool add = residual.defined();
    LayerNormForward<T> f{x.data<T>(),
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
    int64_t blocks = tile_rows(rows);
    bool affine = dweight.defined() || dbias.defined();
    Tensor partial = affine ? Tensor::empty({2, blocks * columns}, dtype_of<A>, x.device()) : Tensor();
    A *p = affine ? partial.data<A>() : nullptr, *q = affine ? p + blocks * columns : nullptr;
    LayerNormBackward<T> f{dy.data<T>(),
                           x.data<T>(),
                           weight.data<A>(),
                           mean.data<A>(),
                           rstd.data<A>(),
                           data_or_null<T>(dx),
                           p,
                           q,
                           rows,
                           columns};
    for_each(blocks, f, kTileRows * columns * 4);
    if (dweight.defined()) sum_partials(p, dweight.data<A>(), 1, blocks, columns);
    if (dbias.defined()) sum_partials(q, dbias.data<A>(), 1, blocks, columns);
  });
}

void dropout_norm_forward_generic(const Tensor& x, const RowDropout& drop, const Tensor& residual,
                                  const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                                  Tensor& sum, Tensor& mean, Tensor& rstd) {
  Tensor kept = x;
  if (drop.p > 0) {
    kept = x.empty_like();
    dropout(x, drop.p, drop.key, drop.call, drop.first, kept);
  }
  layer_norm_forward(kept.to(y.dtype()), residual, weight, bias, eps, y, sum, mean, rstd);
}

void dropout_norm_backward_generic(const Tensor& dy, const Tensor& sum, const Tensor& weight,
                                   const Tensor& mean, const Tensor& rstd, const RowDropout& drop,
                                   Tensor& dresidual, Tensor& dx, Tensor& dweight, Tensor& dbias) {
  layer_norm_backward(dy, sum, weight, mean, rstd, dresidual, dweight, dbias);
  if (!dx.defined()) return;
  const Tensor narrow = dresidual.to(dx.dtype());
  drop.p > 0 ? dropout(narrow, drop.p, drop.key, drop.call, drop.first, dx) : copy(narrow, dx);
}

SACCADE_REGISTER_KERNEL(dropout_norm_forward, &dropout_norm_forward_generic);
SACCADE_REGISTER_KERNEL(dropout_norm_backward, &dropout_norm_backward_generic);
SACCADE_REGISTER_KERNEL(layer_norm_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(layer_norm_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
