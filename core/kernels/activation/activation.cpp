#include "core/kernels/activation/activation.h"

#include "core/kernels/activation/activation_math.h"
#include "core/kernels/common/columns.h"

namespace saccade::kernels {
namespace {

template <Activation Act, class T>
struct Forward {
  const T* z;
  T *y, *slope;  // slope may be null
  SACCADE_HD void operator()(int64_t i) const {
    acc_t<T> s = 0;
    y[i] = static_cast<T>(activate<Act>(static_cast<acc_t<T>>(z[i]), s));
    if (Act == Activation::kGelu && slope) slope[i] = static_cast<T>(s);
  }
};

// index = (row tile, column tile)
template <Activation Act, class T>
struct Backward {
  using A = acc_t<T>;
  const T *dy, *saved;
  T* dz;
  A* partial;  // [row tiles, columns] or nullptr
  int64_t rows, columns;

  template <bool Full>
  SACCADE_HD void tile(int64_t block, int64_t first, int64_t width) const {
    A sum[kTileColumns] = {};
    int64_t w = Full ? kTileColumns : width;
    int64_t end = (block + 1) * kTileRows < rows ? (block + 1) * kTileRows : rows;
    for (int64_t r = block * kTileRows; r < end; ++r) {
      int64_t at = r * columns + first;
      for (int64_t c = 0; c < w; ++c) {
        A s = A(0);
        if constexpr (Act != Activation::kNone) s = static_cast<A>(saved[at + c]);
        A g = activation_grad<Act>(static_cast<A>(dy[at + c]), s);
        if (dz) dz[at + c] = static_cast<T>(g);
        sum[c] += g;
      }
    }
    if (partial)
      for (int64_t c = 0; c < w; ++c) partial[block * columns + first + c] = sum[c];
  }
  SACCADE_HD void operator()(int64_t i) const {
    int64_t per = (columns + kTileColumns - 1) / kTileColumns;
    int64_t first = i % per * kTileColumns;
    if (columns - first >= kTileColumns)
      tile<true>(i / per, first, kTileColumns);
    else
      tile<false>(i / per, first, columns - first);
  }
};

int64_t cost_of(Activation act) { return act == Activation::kGelu ? 16 : 1; }

void forward_generic(Activation act, const Tensor& z, Tensor& y, Tensor& slope) {
  with_activation(act, [&]<Activation Act>() {
    dispatch_float(z.dtype(), "activation", [&]<class T>() {
      T* to = slope.defined() ? slope.data<T>() : nullptr;
      for_each(z.numel(), Forward<Act, T>{z.data<T>(), y.data<T>(), to}, cost_of(act));
    });
  });
}

void backward_generic(Activation act, const Tensor& dy, const Tensor& saved, Tensor& dz, Tensor& bias_grad) {
  int64_t rows = dy.dim(0), columns = dy.dim(1);
  with_activation(act, [&]<Activation Act>() {
    dispatch_float(dy.dtype(), "activation", [&]<class T>() {
      using A = acc_t<T>;
      Tensor partial;
      if (bias_grad.defined()) partial = Tensor::empty({tile_rows(rows), columns}, dtype_of<A>, dy.device());
      Backward<Act, T> f{dy.data<T>(),
                         Act == Activation::kNone ? nullptr : saved.data<T>(),
                         dz.defined() ? dz.data<T>() : nullptr,
                         partial.defined() ? partial.data<A>() : nullptr,
                         rows,
                         columns};
      for_each(tile_rows(rows) * tile_columns(columns), f, kTileRows * kTileColumns);
      if (bias_grad.defined())
        sum_partials(partial.data<A>(), bias_grad.data<A>(), 1, tile_rows(rows), columns);
    });
  });
}

SACCADE_REGISTER_KERNEL(activation_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(activation_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
