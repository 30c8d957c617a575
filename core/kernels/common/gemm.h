// The plain matrix product shared by the generic kernels: one index computes a tile of one row of the result.
#pragma once

#include "core/kernels/activation/activations.h"
#include "core/runtime/launch.h"
#include "core/tensor/tensor.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// c[b, i, j] = sum_k a[b, i, k] * b[b, k, j] (+ bias[j], then relu); index = (batch, i, tile of j).
// b's columns are contiguous; batch strides may be 0; c is contiguous.
template <class T, class C>
struct Gemm {
  static constexpr int64_t kColumns = 32;
  using A = acc_t<T>;
  const T *a, *b;
  C* c;
  int64_t m, n, k;
  int64_t a_batch, a_row, a_column, b_batch, b_row;
  const A* bias = nullptr;
  Activation act = Activation::kNone;  // must satisfy fuses_into_products

  template <bool Full>
  SACCADE_HD void tile(int64_t batch, int64_t row, int64_t first, int64_t width) const {
    const T* pa = a + batch * a_batch + row * a_row;
    const T* pb = b + batch * b_batch + first;
    int64_t w = Full ? kColumns : width;
    A sum[kColumns] = {};
    for (int64_t kk = 0; kk < k; ++kk) {
      A av = static_cast<A>(pa[kk * a_column]);
      for (int64_t j = 0; j < w; ++j) sum[j] += av * static_cast<A>(pb[kk * b_row + j]);
    }
    C* pc = c + (batch * m + row) * n + first;
    for (int64_t j = 0; j < w; ++j) {
      A v = sum[j];
      if (bias) v += bias[first + j];
      if (act == Activation::kRelu && v < A(0)) v = A(0);
      pc[j] = static_cast<C>(v);
    }
  }
  SACCADE_HD void operator()(int64_t i) const {
    int64_t tiles = ceil_div(n, kColumns);
    int64_t first = i % tiles * kColumns, row = i / tiles % m, batch = i / tiles / m;
    if (n - first >= kColumns)
      tile<true>(batch, row, first, kColumns);
    else
      tile<false>(batch, row, first, n - first);
  }
};

// a [B or 1, M, K], b [B or 1, K, N], any strides; c [B, M, N] contiguous, of a's dtype or its acc_t.
template <class T, class C>
void gemm(const Tensor& a, const Tensor& b, Tensor& c, const acc_t<T>* bias = nullptr,
          Activation act = Activation::kNone) {
  // A transposed right factor is copied once: strided loads would cost more.
  Tensor right = b.dim(2) == 1 || b.strides()[2] == 1 ? b : b.contiguous();
  Gemm<T, C> f;
  f.a = a.data<T>();
  f.b = right.data<T>();
  f.c = c.data<C>();
  f.m = c.dim(1);
  f.n = c.dim(2);
  f.k = a.dim(2);
  f.a_batch = a.dim(0) == 1 ? 0 : a.strides()[0];
  f.a_row = a.strides()[1];
  f.a_column = a.strides()[2];
  f.b_batch = right.dim(0) == 1 ? 0 : right.strides()[0];
  f.b_row = right.strides()[1];
  f.bias = bias;
  f.act = act;
  int64_t tiles = (f.n + Gemm<T, C>::kColumns - 1) / Gemm<T, C>::kColumns;
  for_each(c.dim(0) * f.m * tiles, f, f.k * Gemm<T, C>::kColumns);
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
