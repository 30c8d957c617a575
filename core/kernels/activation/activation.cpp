#include "core/kernels/activation/activation.h"

#include "core/kernels/common/column_tiles.h"
#include "core/kernels/copy/copy.h"

namespace saccade::kernels {
namespace {

template <class F, class T, bool kSlope>
struct Forward {
  const T* z;
  T *y, *slope;
  SACCADE_HD void operator()(int64_t i) const {
    acc_t<T> s = 0;
    y[i] = static_cast<T>(value_and_slope<F>(static_cast<acc_t<T>>(z[i]), s));
    if (kSlope) slope[i] = static_cast<T>(s);
  }
};

// index = (row tile, column tile)
template <class F, class T>
struct Backward {
  using A = acc_t<T>;
  const T *dy, *saved;
  T* dz;
  A* partial;  // [row tiles, columns] or nullptr
  int64_t rows, columns;

  template <bool Full>
  SACCADE_HD void run(int64_t block, int64_t first, int64_t width) const {
    A sum[kTileColumns] = {};
    int64_t w = Full ? kTileColumns : width;
    int64_t end = (block + 1) * kTileRows < rows ? (block + 1) * kTileRows : rows;
    for (int64_t r = block * kTileRows; r < end; ++r) {
      int64_t at = r * columns + first;
      for (int64_t c = 0; c < w; ++c) {
        A g = static_cast<A>(dy[at + c]);
        if constexpr (!is_identity<F>) g = gradient_of_saved<F>(static_cast<A>(saved[at + c]), g);
        if (dz) dz[at + c] = static_cast<T>(g);
        sum[c] += g;
      }
    }
    if (partial)
      for (int64_t c = 0; c < w; ++c) partial[block * columns + first + c] = sum[c];
  }
  SACCADE_HD void operator()(int64_t i) const { run_tile(*this, i, columns); }
};

void forward_generic(Activation act, const Tensor& z, Tensor& y, Tensor& slope) {
  with_activation(act, [&]<class F>() {
    dispatch_float(z.dtype(), "activation", [&]<class T>() {
      auto run = [&]<bool kSlope>() {
        for_each(z.numel(), Forward<F, T, kSlope>{z.data<T>(), y.data<T>(), data_or_null<T>(slope)},
                 F::kCost);
      };
      !F::kFromValue&& slope.defined() ? run.template operator()<true>() : run.template operator()<false>();
    });
  });
}

void backward_generic(Activation act, const Tensor& dy, const Tensor& saved, Tensor& dz, Tensor& bias_grad) {
  if (dz.defined() && dz.dtype() != dy.dtype()) {
    Tensor wide = dy.empty_like();
    backward_generic(act, dy, saved, wide, bias_grad);
    return copy(wide, dz);
  }
  int64_t rows = dy.dim(0), columns = dy.dim(1);
  with_activation(act, [&]<class F>() {
    dispatch_float(dy.dtype(), "activation", [&]<class T>() {
      using A = acc_t<T>;
      Tensor partial;
      if (bias_grad.defined()) partial = Tensor::empty({tile_rows(rows), columns}, dtype_of<A>, dy.device());
      Backward<F, T> backward{dy.data<T>(),
                              is_identity<F> ? nullptr : saved.data<T>(),
                              data_or_null<T>(dz),
                              data_or_null<A>(partial),
                              rows,
                              columns};
      for_each(tile_rows(rows) * tile_columns(columns), backward, kTileRows * kTileColumns);
      if (bias_grad.defined())
        sum_partials(partial.data<A>(), bias_grad.data<A>(), 1, tile_rows(rows), columns);
    });
  });
}

SACCADE_REGISTER_KERNEL(activation_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(activation_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
